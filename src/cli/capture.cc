// `swivel capture`: the keys, values and queries of a model on a text, as files for `swivel distortion` and for NumPy.
#include "llama/capture.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "base/version.h"
#include "cli/commands.h"
#include "cli/sample_text.h"
#include "eval/npy.h"
#include "eval/output_file.h"
#include "eval/progress.h"
#include "eval/system_info.h"
#include "llama/log.h"
#include "llama/model.h"

namespace swivel::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Arguments {
  std::string model, text, folder, layers = "all", heads = "all";
  int tokens = 1024, threads = DefaultThreads();
  bool queries = false, verbose = false;
};

// "all" (which gives none), or numbers and ranges: "0,5,10-12".
StatusOr<std::vector<int>> Numbers(const std::string& option, const std::string& list) {
  constexpr int kMost = 9999;
  std::vector<int> numbers;
  if (list == "all") return numbers;
  const char* at = list.data();
  const char* end = at + list.size();
  const auto number = [&](int* value) {
    const auto [stop, error] = std::from_chars(at, end, *value);
    const bool good = error == std::errc() && *value >= 0 && *value <= kMost;
    at = stop;
    return good;
  };
  const Status wrong = Status::Invalid(fmt::format("{} {}: all, or numbers from 0 and ranges of them as in 0,5,10-12", option, list));
  while (true) {
    int first = 0;
    if (!number(&first)) return wrong;
    int last = first;
    if (at != end && *at == '-') {
      ++at;
      if (!number(&last) || last < first) return wrong;
    }
    for (int value = first; value <= last; ++value) numbers.push_back(value);
    if (at == end) break;
    if (*at++ != ',') return wrong;
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

// A folder that holds nothing else: files of an earlier run would be taken for this one's.
Status PrepareFolder(const std::string& folder) {
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_directory(folder, error))
    return Status::Io(fmt::format("-o {}: is a file, not a folder", folder));
  fs::create_directories(folder, error);
  if (error) return Status::Io(fmt::format("-o {}: cannot be made: {}", folder, error.message()));
  const bool empty = fs::is_empty(folder, error);
  if (error) return Status::Io(fmt::format("-o {}: cannot be read: {}", folder, error.message()));
  if (!empty) return Status::Invalid(fmt::format("-o {}: is not empty; name a new or an empty folder", folder));
  return CheckWritable(folder + "/manifest.json");
}

Status Write(const Arguments& arguments, const Model& model, const std::vector<Token>& tokens, const std::vector<CapturedRows>& captured) {
  Json files = Json::array();
  for (const CapturedRows& rows : captured) {
    for (size_t i = 0; i < rows.heads.size(); ++i) {
      const std::string name = fmt::format("layer{}_head{}_{}.npy", rows.layer, rows.heads[i], rows.kind);
      const std::string bytes = NpyBytes(rows.head(i, tokens.size()), tokens.size(), static_cast<size_t>(rows.width));
      if (Status status = WriteFile(arguments.folder + "/" + name, bytes); !status.ok()) return status;
      files.push_back({{"file", name},
                       {"kind", std::string(1, rows.kind)},
                       {"layer", rows.layer},
                       {"head", rows.heads[i]},
                       {"heads", rows.num_heads},
                       {"d", rows.width},
                       {"logit_scale", rows.logit_scale}});
    }
  }
  const Json manifest = {{"swivel", SWIVEL_VERSION},
                         {"llama_cpp", LlamaBuild()},
                         {"model", arguments.model},
                         {"model_description", model.description()},
                         {"text", arguments.text.empty() ? Json() : Json(arguments.text)},
                         {"tokens", tokens.size()},
                         {"token_ids", tokens},
                         {"files", files}};
  // Last: a folder with a manifest is complete.
  return WriteFile(arguments.folder + "/manifest.json", manifest.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

Status Capture(const Arguments& arguments) {
  CaptureOptions options;
  StatusOr<std::vector<int>> layers = Numbers("--layers", arguments.layers), heads = Numbers("--heads", arguments.heads);
  for (const auto* numbers : {&layers, &heads}) {
    if (!numbers->ok()) return numbers->status();
  }
  options.layers = *layers;
  options.heads = *heads;
  options.queries = arguments.queries;
  options.threads = arguments.threads;
  std::string text = kSampleText;
  if (!arguments.text.empty()) {
    StatusOr<std::string> content = ReadFile(arguments.text);
    if (!content.ok()) return Status(content.status().code(), "text " + content.status().message());
    text = std::move(*content);
  }
  StatusOr<std::unique_ptr<Model>> loaded = Model::Load(arguments.model, Model::Devices::kCpu);
  if (!loaded.ok()) return loaded.status();
  const Model& model = **loaded;
  std::vector<Token> tokens = model.Tokenize(text, /*add_special=*/true, /*parse_special=*/false);
  if (tokens.empty()) return Status::Invalid("the text has no tokens");
  const auto wanted = static_cast<size_t>(arguments.tokens);
  if (tokens.size() < wanted && !arguments.text.empty()) {
    fmt::print(stderr, "swivel capture: the text has {} tokens, fewer than -c {}\n", tokens.size(), wanted);
  }
  tokens.resize(std::min(tokens.size(), wanted));
  if (static_cast<int>(tokens.size()) > model.train_context()) {
    fmt::print(stderr, "swivel capture: warning: {} tokens are more than the {} this model was trained on\n", tokens.size(),
               model.train_context());
  }
  if (Status status = PrepareFolder(arguments.folder); !status.ok()) return status;
  // Rows are kept twice for a moment, here and as the bytes of a file.
  if (const std::optional<int64_t> available = AvailableMemoryBytes()) options.most_bytes = *available / 2;

  Progress progress;
  progress.Begin(static_cast<double>(tokens.size()));
  size_t last = 0;
  StatusOr<std::vector<CapturedRows>> captured = CaptureAttention(model, tokens, options, [&](size_t done) {
    progress.Advance(static_cast<double>(done - last), "running the model");
    last = done;
  });
  progress.Clear();
  if (!captured.ok()) return captured.status();
  if (Status status = Write(arguments, model, tokens, *captured); !status.ok()) return status;
  size_t num_files = 0;
  for (const CapturedRows& rows : *captured) num_files += rows.heads.size();
  fmt::print("{}: {} files of {} tokens\n", arguments.folder, num_files, tokens.size());
  return {};
}

int RunCapture(const Arguments& arguments) {
  CaptureLlamaLog(arguments.verbose);
  const Status status = Capture(arguments);
  if (!status.ok()) fmt::print(stderr, "swivel capture: error: {}\n", status.message());
  return status.ok() ? 0 : 1;
}

}  // namespace

void AddCapture(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("capture", "Write the keys, values and queries of a model on a text as .npy files");
  command->add_option("-m,--model", arguments->model, "GGUF file")->required();
  command->add_option("-f,--file", arguments->text, "Text to run it on [a built-in one of a few hundred tokens]");
  command->add_option("-c,--ctx-size", arguments->tokens, "Tokens, from the beginning of the text")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 24));
  command->add_option("--layers", arguments->layers, "Layers: all, or a list as in 0,5,10-12")->capture_default_str();
  command->add_option("--heads", arguments->heads, "KV heads: all, or a list")->capture_default_str();
  command->add_flag("-q,--queries", arguments->queries, "Also the queries of all query heads that read these KV heads");
  command->add_option("-o,--output", arguments->folder, "Folder for the files; new or empty")->required();
  command->add_option("-t,--threads", arguments->threads, "Threads")->capture_default_str()->check(CLI::Range(1, 1024));
  command->add_flag("-v,--verbose", arguments->verbose, "Show llama.cpp's log");
  command->footer(
      "Keys and queries are taken after the rotary embedding, keys and values before llama.cpp rounds them to f16. Files are float32\n"
      "[tokens, d], named layer0_head0_k.npy, …_v.npy, …_q.npy (of a query head); manifest.json lists them.\n\n"
      "Examples:\n"
      "  swivel capture -m model.gguf -o vectors\n"
      "  swivel capture -m model.gguf -f wiki.test.raw -c 4096 --layers 0,13,27 -q -o vectors\n"
      "  swivel distortion --source vectors/layer0_head0_k.npy");
  command->callback([arguments, exit_code] { *exit_code = RunCapture(*arguments); });
}

}  // namespace swivel::cli
