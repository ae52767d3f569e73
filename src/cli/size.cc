// swivel size: what a cache costs and how much context fits, from the header of the model file alone.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/exec_programs.h"
#include "cli/lists.h"
#include "cli/size_cache.h"
#include "cli/size_table.h"
#include "gguf/header.h"
#include "gguf/shape.h"
#include "llama/cache_choice.h"

namespace swivel::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  swivel size -m model.gguf -c 32768,131072\n"
    "  swivel size -m model.gguf -c 131072 --memory 16G --kv turbo3,turbo4 --kv k=turbo4,v=turbo3\n"
    "  swivel size -m model.gguf -np 4 --kvu -o json       (llama-server's default slots)\n"
    "Only the header of the file is read: a download that has begun is enough.";

struct Options {
  std::string model;
  std::vector<std::string> contexts;
  std::string memory;
  std::vector<std::string> kv;
  std::vector<std::string> parallel;
  CacheLayout layout;
  std::string output = "md";
};

struct Row {
  SizedCache cache;
  std::vector<uint64_t> bytes;  // one for each context
  int64_t longest = -1;         // -1: not asked for
  double bits = 0;
  std::string refusal;  // why the model cannot have this cache; then nothing else is set
};

struct Report {
  gguf::ModelShape shape;
  std::vector<int64_t> contexts;
  std::vector<Row> rows;
  uint64_t memory = 0, weights = 0, budget = 0;
  bool has_budget = false;
  std::vector<std::string> notes;
};

int Fail(const std::string& message) {
  fmt::print(stderr, "swivel size: {}\n", message);
  return 1;
}

// "32768", "32k" (1024 each, as people write context lengths).
StatusOr<int64_t> ParseContext(const std::string& text) {
  const StatusOr<uint64_t> tokens = ParseBytes(text);
  if (!tokens.ok() || tokens.value() < 1 || tokens.value() > static_cast<uint64_t>(kLongestContext)) {
    return Status::Invalid("-c " + text + ": a number of tokens from 1 to " + std::to_string(kLongestContext) + ", such as 32768 or 128k");
  }
  return static_cast<int64_t>(tokens.value());
}

// llama.cpp's three, then what was asked for (names as in `swivel eval`: llama.cpp's own types by their names, ours behind "swivel:"
// where both have one), or all codecs.
StatusOr<std::vector<SizedCache>> Caches(const std::vector<std::string>& lists) {
  const std::vector<std::string> always = {"f16", "q8_0", "q4_0"};
  const auto is_always = [&always](const std::string& type) { return std::find(always.begin(), always.end(), type) != always.end(); };
  std::vector<SizedCache> caches;
  for (const std::string& type : always) caches.push_back({"llama.cpp " + type, type, std::nullopt});
  if (lists.empty()) {
    for (const Codec* codec : AllCodecs()) {
      CacheSpec spec;
      spec.k = spec.v = codec->id;
      caches.push_back({(is_always(codec->name) ? "swivel:" : "") + std::string(codec->name), "", spec});
    }
  }
  for (const std::string& list : lists) {
    const StatusOr<std::vector<CacheChoice>> choices = ParseCacheList(list);
    if (!choices.ok()) return Status::Invalid("--kv: " + choices.status().message());
    if (choices.value().empty()) return Status::Invalid("--kv '" + list + "' names no cache");
    for (const CacheChoice& choice : choices.value()) {
      const std::string type = choice.name.substr(choice.name.find(':') + 1);
      if (!choice.stock) {
        caches.push_back({choice.name, "", ParseSpec(choice.spec).value()});
      } else if (!is_always(type)) {
        caches.push_back({"llama.cpp " + type, type, std::nullopt});
      }
    }
  }
  return caches;
}

Status SetBudget(const gguf::Header& header, const std::string& memory, Report* report) {
  const std::optional<uint64_t> weights = header.TensorBytes();
  if (!memory.empty()) {
    const StatusOr<uint64_t> bytes = ParseBytes(memory);
    if (!bytes.ok()) return Status::Invalid("--memory: " + bytes.status().message());
    report->memory = bytes.value();
  } else if (const std::optional<uint64_t> free = FreeMemory()) {
    report->memory = *free;
  } else {
    return {};
  }
  if (!weights) {
    const std::string why = header.complete ? "it holds tensors of a type that is not known here" : header.end_note;
    report->notes.push_back("the size of the weights is unknown (" + why + "), so the longest context is not computed");
    return {};
  }
  report->weights = *weights;
  report->budget = report->memory > *weights ? report->memory - *weights : 0;
  report->has_budget = true;
  return {};
}

void WindowNote(Report* report, const CacheLayout& layout) {
  int windowed = 0, window = 0;
  for (const gguf::CachedLayer& layer : report->shape.layers) {
    if (layer.window == 0) continue;
    ++windowed;
    window = layer.window;
  }
  if (windowed == 0) return;
  report->notes.push_back(
      fmt::format("{} of {} layers see a sliding window of {} tokens only; llama.cpp keeps the window and one batch of {} for them, "
                  "whatever the context{}",
                  windowed, report->shape.layers.size(), window, layout.micro_batch,
                  layout.sequences == 1 ? " (llama-server keeps four windows by default: -np 4 --kvu)" : ""));
}

std::string ShapeLine(const gguf::ModelShape& shape) {
  const auto range = [&shape](auto field) {
    int low = field(shape.layers[0]), high = low;
    for (const gguf::CachedLayer& layer : shape.layers) {
      low = std::min(low, field(layer));
      high = std::max(high, field(layer));
    }
    return low == high ? std::to_string(low) : fmt::format("{}-{}", low, high);
  };
  const std::string v_width = range([](const gguf::CachedLayer& layer) { return layer.v_width; });
  return fmt::format("{}, {} layers with a cache, {} KV heads, K width {}{}, trained for {} tokens", shape.architecture,
                     shape.layers.size(), range([](const gguf::CachedLayer& layer) { return layer.heads_kv; }),
                     range([](const gguf::CachedLayer& layer) { return layer.k_width; }),
                     v_width == "0" ? ", V inside K" : ", V width " + v_width, shape.context);
}

std::string Json(const Report& report, const CacheLayout& layout) {
  nlohmann::ordered_json json = {{"architecture", report.shape.architecture},
                                 {"layers", report.shape.layers.size()},
                                 {"trained_context", report.shape.context},
                                 {"sequences", layout.sequences},
                                 {"unified", layout.unified},
                                 {"micro_batch", layout.micro_batch},
                                 {"notes", report.notes}};
  if (report.has_budget) json["memory"] = {{"total", report.memory}, {"weights", report.weights}, {"cache", report.budget}};
  json["caches"] = nlohmann::ordered_json::array();
  for (const Row& row : report.rows) {
    nlohmann::ordered_json entry = {{"cache", row.cache.label}, {"swivel", row.cache.spec.has_value()}};
    if (!row.refusal.empty()) {
      entry["refused"] = row.refusal;
    } else {
      entry["bits_per_value"] = row.bits;
      for (size_t i = 0; i < row.bytes.size(); ++i) entry["bytes"][std::to_string(report.contexts[i])] = row.bytes[i];
      if (row.longest >= 0) entry["longest_context"] = row.longest;
    }
    json["caches"].push_back(entry);
  }
  return json.dump(2) + "\n";
}

Table MakeTable(const Report& report, bool raw) {
  Table table;
  table.header = {"cache", "bits"};
  for (int64_t context : report.contexts)
    table.header.push_back(raw ? fmt::format("bytes_{}", context) : fmt::format("{} tokens", context));
  if (report.has_budget) table.header.push_back(raw ? "longest_context" : "longest context");
  for (const Row& row : report.rows) {
    std::vector<std::string> cells = {row.cache.label};
    const bool refused = !row.refusal.empty();
    cells.push_back(refused ? "-" : fmt::format("{:.4g}", row.bits));
    for (size_t i = 0; i < report.contexts.size(); ++i) {
      cells.push_back(refused ? "-" : raw ? std::to_string(row.bytes[i]) : FormatBytes(row.bytes[i]));
    }
    if (report.has_budget) {
      const bool endless = row.longest >= kLongestContext;
      cells.push_back(refused ? "-" : endless && !raw ? "any" : std::to_string(row.longest));
    }
    table.rows.push_back(cells);
  }
  return table;
}

StatusOr<int> Sequences(std::vector<std::string> words) {
  if (words.empty()) return 1;
  if (words.size() == 2 && words[0] == "p") words.erase(words.begin());
  char* end = nullptr;
  const long sequences = std::strtol(words[0].c_str(), &end, 10);
  if (words.size() == 1 && *end == '\0' && sequences >= 1 && sequences <= 256) return static_cast<int>(sequences);
  return Status::Invalid("-np " + words[0] + ": a number of sequences from 1 to 256");
}

int Size(Options options) {
  const StatusOr<int> sequences = Sequences(options.parallel);
  if (!sequences.ok()) return Fail(sequences.status().message());
  options.layout.sequences = sequences.value();
  const StatusOr<gguf::Header> header = gguf::ReadModelHeader(options.model);
  if (!header.ok()) return Fail(header.status().message());
  const StatusOr<gguf::ModelShape> shape = gguf::ReadShape(header.value());
  if (!shape.ok()) return Fail(options.model + ": " + shape.status().message());
  Report report;
  report.shape = shape.value();
  report.notes = shape.value().notes;
  for (const std::string& list : options.contexts) {
    for (const std::string& text : SplitList(list)) {
      const StatusOr<int64_t> context = ParseContext(text);
      if (!context.ok()) return Fail(context.status().message());
      report.contexts.push_back(context.value());
    }
  }
  if (report.contexts.empty()) report.contexts = {report.shape.context > 0 ? report.shape.context : 4096};
  const StatusOr<std::vector<SizedCache>> caches = Caches(options.kv);
  if (!caches.ok()) return Fail(caches.status().message());
  for (const SizedCache& cache : caches.value()) {
    if (cache.spec && (!cache.spec->decay.empty() || cache.spec->budget_bytes > 0)) {
      report.notes.push_back(cache.label + ": decay= and budget= are not counted; the size is that before anything decays");
    }
  }
  const Status budget = SetBudget(header.value(), options.memory, &report);
  if (!budget.ok()) return Fail(budget.message());
  WindowNote(&report, options.layout);
  if (report.shape.mla)
    report.notes.push_back("the plugin does not serve latent attention yet; its rows show what the packed cache would take");

  for (const SizedCache& cache : caches.value()) {
    Row row{cache, {}, -1, 0, ""};
    for (int64_t context : report.contexts) {
      const StatusOr<uint64_t> bytes = CacheBytes(report.shape, cache, context, options.layout);
      if (!bytes.ok()) {
        row.refusal = bytes.status().message();
        report.notes.push_back(cache.label + ": " + row.refusal);
        break;
      }
      row.bytes.push_back(bytes.value());
      row.bits = 8.0 * static_cast<double>(bytes.value()) / static_cast<double>(CacheValues(report.shape, context, options.layout));
    }
    if (row.refusal.empty() && report.has_budget) row.longest = LongestContext(report.shape, cache, report.budget, options.layout).value();
    report.rows.push_back(row);
  }

  if (options.output == "json") {
    fmt::print("{}", Json(report, options.layout));
    return 0;
  }
  if (options.output == "csv") {
    fmt::print("{}", MakeTable(report, true).Csv());
  } else {
    fmt::print("{}\n\n{}", ShapeLine(report.shape), MakeTable(report, false).Markdown());
    if (report.has_budget) {
      fmt::print("\nlongest context: {} {} less {} of weights leaves {} for the cache; compute buffers are not counted\n",
                 FormatBytes(report.memory), options.memory.empty() ? "of free memory" : "of memory", FormatBytes(report.weights),
                 FormatBytes(report.budget));
    }
  }
  // Notes belong to a person's reading, not to a table that a program reads.
  for (const std::string& note : report.notes) fmt::print(options.output == "csv" ? stderr : stdout, "note: {}\n", note);
  return 0;
}

}  // namespace

void AddSize(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("size", "Cache size of a model for every codec, and the context that fits");
  command->add_option("-m,--model", options->model, "GGUF file (the first part of a model in several files)")->required();
  command->add_option("-c,--ctx-size", options->contexts, "Context lengths, separated by commas (default: what the model was trained for)");
  command->add_option("--memory", options->memory, "Memory for weights and cache together, such as 16G (default: what is free now)");
  command->add_option("--kv", options->kv, "Caches to show beside llama.cpp's, a list as in `swivel eval` (default: all codecs)");
  // One letter is all that CLI11 takes behind one dash: it reads `-np 4` as -n with the values "p" and "4".
  command->add_option("-n,--np,--parallel", options->parallel, "Sequences that share the context (also as llama.cpp's -np)")
      ->expected(1, 2);
  command->add_flag("--kvu,--kv-unified", options->layout.unified, "The sequences share one pool of cells (llama.cpp's -kvu)");
  command->add_option("--ub,--ubatch-size", options->layout.micro_batch, "Micro batch (llama.cpp's -ub)")->check(CLI::Range(1, 1 << 20));
  command->add_option("-o,--output", options->output, "md, csv or json")->check(CLI::IsMember({"md", "csv", "json"}));
  command->footer(kExamples);
  command->callback([options, exit_code] { *exit_code = Size(*options); });
}

}  // namespace swivel::cli
