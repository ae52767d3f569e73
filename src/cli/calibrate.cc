// `swivel calibrate`: moments of keys and queries of a model, measured on text, for the transforms of a calibrated cache.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "calibrate/calibration_file.h"
#include "cli/calibration_info.h"
#include "cli/calibration_run.h"
#include "cli/calibration_text.h"
#include "cli/commands.h"
#include "cli/paths.h"
#include "eval/output_file.h"
#include "eval/progress.h"
#include "eval/system_info.h"
#include "gguf/fingerprint.h"
#include "gguf/header.h"
#include "gguf/shape.h"
#include "llama/log.h"
#include "llama/model.h"

namespace swivel::cli {
namespace {

namespace fs = std::filesystem;

// More of a text is not read: chunks are few, and tokenizing takes a second for some megabytes.
constexpr size_t kMostTextBytes = size_t{16} << 20;
// Where the system does not say how much memory is free.
constexpr int64_t kDefaultRowBytes = int64_t{1} << 30;

struct Arguments {
  std::string model, output, info;
  std::vector<std::string> texts;
  int chunk_tokens = 2048, most_chunks = 8, threads = DefaultThreads();
  bool verbose = false;
};

void Note(const std::string& text) { fmt::print(stderr, "swivel calibrate: {}\n", text); }

StatusOr<std::string> OutputPath(const std::string& given, uint64_t fingerprint) {
  std::string path = given;
  std::error_code error;
  if (path.empty()) {
    path = DefaultCalibrationPath(fingerprint);
    if (path.empty()) return Status::Invalid("neither HOME nor XDG_CACHE_HOME is set; say where to write with -o");
    fs::create_directories(FolderOf(path), error);
    if (error) return Status::Io(fmt::format("{}: cannot be made: {}", FolderOf(path), error.message()));
  }
  if (fs::exists(path, error)) {
    // -o model.gguf would be an expensive slip.
    const StatusOr<Calibration> old = ReadCalibration(path);
    if (!old.ok() && old.status().message().find("is not a calibration file") != std::string::npos) {
      return Status::Invalid(fmt::format("-o {}: exists and is not a calibration file; it is left as it is", path));
    }
  }
  if (Status status = CheckWritable(path); !status.ok()) return status;
  return path;
}

// All texts one after the other, and what to call them.
StatusOr<std::vector<Token>> ReadTokens(const Model& model, const std::vector<std::string>& texts, std::string* names) {
  const auto tokenize = [&](const std::string& text) { return model.Tokenize(text, /*add_special=*/false, /*parse_special=*/false); };
  *names = "built-in text";
  if (texts.empty()) return tokenize(kCalibrationText);
  names->clear();
  std::vector<Token> tokens;
  for (const std::string& path : texts) {
    StatusOr<std::string> text = ReadFile(path);
    if (!text.ok()) return Status(text.status().code(), "text " + text.status().message());
    if (text->empty()) return Status::Invalid(fmt::format("text '{}' is empty", path));
    if (text->size() > kMostTextBytes) {
      Note(fmt::format("of '{}' the first {} MiB are used", path, kMostTextBytes >> 20));
      text->resize(kMostTextBytes);
    }
    const std::vector<Token> more = tokenize(*text);
    tokens.insert(tokens.end(), more.begin(), more.end());
    *names += (names->empty() ? "" : ", ") + BaseName(path);
  }
  return tokens;
}

// What an interrupted run of the same model, text and options left, if anything.
std::optional<Calibration> Resume(const std::string& partial, const Calibration& planned) {
  StatusOr<Calibration> left = ReadCalibration(partial);
  if (!left.ok()) {
    if (left.status().code() != StatusCode::kNotFound)
      Note(fmt::format("cannot go on from it, so starting anew: {}", left.status().message()));
    return {};
  }
  bool same = left->fingerprint == planned.fingerprint && left->text_hash == planned.text_hash &&
              left->chunk_tokens == planned.chunk_tokens && left->planned_chunks == planned.planned_chunks &&
              left->group_means == planned.group_means && left->layers.size() == planned.layers.size();
  for (size_t i = 0; same && i < planned.layers.size(); ++i) {
    const LayerMoments &a = left->layers[i], &b = planned.layers[i];
    same = a.layer == b.layer && a.width == b.width && a.heads.size() == b.heads.size();
  }
  if (!same) {
    Note(fmt::format("{} is of another model, text or other options, so starting anew", partial));
    return {};
  }
  Note(fmt::format("going on from {}: {} of {} chunks are done", partial, left->num_chunks, left->planned_chunks));
  left->description = planned.description;
  return std::move(*left);
}

Status Run(const Arguments& arguments) {
  const StatusOr<uint64_t> fingerprint = ModelFingerprint(arguments.model);
  if (!fingerprint.ok()) return fingerprint.status();
  const StatusOr<gguf::Header> header = gguf::ReadModelHeader(arguments.model);
  if (!header.ok()) return header.status();
  const StatusOr<gguf::ModelShape> read_shape = gguf::ReadShape(header.value());
  if (!read_shape.ok()) return Status(read_shape.status().code(), arguments.model + ": " + read_shape.status().message());
  const gguf::ModelShape& shape = read_shape.value();
  Calibration calibration;
  StatusOr<std::vector<LayerMoments>> layers = EmptyLayers(shape);
  if (!layers.ok()) return Status(layers.status().code(), arguments.model + ": " + layers.status().message());
  calibration.layers = std::move(*layers);
  const int64_t row_bytes = AvailableMemoryBytes().value_or(2 * kDefaultRowBytes) / 2;
  StatusOr<std::vector<std::vector<int>>> groups = LayerGroups(shape, arguments.chunk_tokens, row_bytes);
  if (!groups.ok()) return groups.status();
  const StatusOr<std::string> output = OutputPath(arguments.output, fingerprint.value());
  if (!output.ok()) return output.status();

  StatusOr<std::unique_ptr<Model>> loaded = Model::Load(arguments.model, Model::Devices::kCpu);
  if (!loaded.ok()) return loaded.status();
  const Model& model = **loaded;
  std::string names;
  StatusOr<std::vector<Token>> tokens = ReadTokens(model, arguments.texts, &names);
  if (!tokens.ok()) return tokens.status();
  StatusOr<std::vector<std::vector<Token>>> chunks =
      PlanChunks(*tokens, arguments.chunk_tokens, arguments.most_chunks, model.adds_bos(), model.bos());
  if (!chunks.ok()) return chunks.status();
  if (arguments.chunk_tokens > model.train_context()) {
    Note(fmt::format("warning: -c {} is more than the {} tokens this model was trained on", arguments.chunk_tokens, model.train_context()));
  }
  calibration.fingerprint = fingerprint.value();
  calibration.text_hash = HashOfChunks(*chunks);
  calibration.description = fmt::format("{}; {}", model.description(), names);
  calibration.chunk_tokens = arguments.chunk_tokens;
  calibration.planned_chunks = static_cast<int>(chunks->size());

  const std::string partial = output.value() + ".partial";
  if (std::optional<Calibration> left = Resume(partial, calibration)) calibration = std::move(*left);
  Progress progress;
  progress.Begin(static_cast<double>(calibration.planned_chunks - calibration.num_chunks));
  while (calibration.num_chunks < calibration.planned_chunks) {
    const auto index = static_cast<size_t>(calibration.num_chunks);
    const std::string label = fmt::format("chunk {} of {}", index + 1, chunks->size());
    if (Status status = AddChunk(model, shape, (*chunks)[index], *groups, arguments.threads, label, &progress, &calibration);
        !status.ok()) {
      progress.Clear();
      return status;
    }
    // Rounded as a file would round it, so that an interrupted run ends with the same bytes as one that was not.
    StatusOr<Calibration> rounded = ParseCalibration(CalibrationBytes(calibration));
    if (!rounded.ok()) return Status::Internal("the calibration " + rounded.status().message());
    calibration = std::move(*rounded);
    if (calibration.num_chunks == calibration.planned_chunks) break;
    if (Status status = WriteCalibration(partial, calibration); !status.ok()) return status;
  }
  progress.Clear();
  if (Status status = WriteCalibration(output.value(), calibration); !status.ok()) return status;
  std::error_code ignored;
  fs::remove(partial, ignored);
  size_t heads = 0;
  for (const LayerMoments& layer : calibration.layers) heads += layer.heads.size();
  Note(fmt::format("{} KV heads in {} layers, {} tokens in {} chunks ({})", heads, calibration.layers.size(), calibration.num_tokens,
                   calibration.num_chunks, names));
  fmt::print("{}\n", output.value());
  return {};
}

Status Info(const Arguments& arguments) {
  const std::string format = arguments.output.empty() ? "md" : arguments.output;
  if (format != "md" && format != "json") return Status::Invalid(fmt::format("--info: -o {}: md or json", format));
  if (!arguments.model.empty() || !arguments.texts.empty()) return Status::Invalid("--info reads a file; it takes no -m and no -f");
  const StatusOr<Calibration> calibration = ReadCalibration(arguments.info);
  if (!calibration.ok()) return calibration.status();
  fmt::print("{}", CalibrationInfo(arguments.info, calibration.value(), format));
  return {};
}

int RunCalibrate(const Arguments& arguments) {
  Status status;
  if (!arguments.info.empty()) {
    status = Info(arguments);
  } else if (arguments.model.empty()) {
    status = Status::Invalid("which model? -m MODEL.gguf (or --info FILE.swivel)");
  } else {
    CaptureLlamaLog(arguments.verbose);
    status = Run(arguments);
  }
  if (!status.ok()) Note("error: " + status.message());
  return status.ok() ? 0 : 1;
}

}  // namespace

void AddCalibrate(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("calibrate", "Measure a model's keys and queries on text, for a cache that loses less");
  command->add_option("-m,--model", arguments->model, "GGUF file");
  command->add_option("-f,--file", arguments->texts,
                      "Texts to run it on, of the kind it will see [a built-in mixed one of 2500 to 4000 tokens]");
  command->add_option("-c,--ctx-size", arguments->chunk_tokens, "Tokens of a chunk: as many as the contexts in use")
      ->capture_default_str()
      ->check(CLI::Range(256, 1 << 20));
  command->add_option("--chunks", arguments->most_chunks, "Most chunks to run, spread over the texts")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  command->add_option("-o,--output", arguments->output,
                      "File to write [in the cache folder, named after the model's fingerprint]; with --info md or json");
  command->add_option("--info", arguments->info, "Say what is in a calibration file instead");
  command->add_option("-t,--threads", arguments->threads, "Threads")->capture_default_str()->check(CLI::Range(1, 1024));
  command->add_flag("-v,--verbose", arguments->verbose, "Show llama.cpp's log");
  command->footer(
      "Prints the path of the file. A run that was interrupted goes on where it was when the same command is given again. One file serves "
      "all\n"
      "quantisations of a model.\n\n"
      "Examples:\n"
      "  swivel calibrate -m model.gguf\n"
      "  swivel calibrate -m model.gguf -f prose.txt code.py -c 8192 --chunks 4 -o model.swivel\n"
      "  swivel calibrate --info model.swivel -o json");
  command->callback([arguments, exit_code] { *exit_code = RunCalibrate(*arguments); });
}

}  // namespace swivel::cli
