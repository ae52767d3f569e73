// Evaluate: from arguments to a report.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/version.h"
#include "cli/eval_arguments.h"
#include "cli/lists.h"
#include "eval/command_line.h"
#include "eval/measure.h"
#include "eval/output_file.h"
#include "eval/progress.h"
#include "eval/quality.h"
#include "eval/sensitivity.h"
#include "eval/store.h"
#include "eval/tasks_run.h"
#include "llama/cache_choice.h"
#include "llama/model.h"
#include "llama/plugin.h"
#include "llama/wide_weights.h"

namespace swivel::cli {
namespace {

bool Names(const std::vector<CacheChoice>& caches, const std::string& name) {
  return std::any_of(caches.begin(), caches.end(), [&](const CacheChoice& cache) { return cache.name == name; });
}

// The rows below the base: llama.cpp's own caches, then those of --kv.
StatusOr<std::vector<CacheChoice>> Rows(const EvalArguments& arguments) {
  StatusOr<std::vector<CacheChoice>> rows = ParseStockList(arguments.stock);
  if (!rows.ok()) return rows;
  StatusOr<std::vector<CacheChoice>> asked = ParseCacheList(arguments.kv);
  if (!asked.ok()) return asked;
  for (const CacheChoice& cache : *asked) {
    if (!Names(*rows, cache.name)) rows->push_back(cache);
  }
  std::erase_if(*rows, [](const CacheChoice& cache) { return cache.name == "f16"; });  // the base
  return rows;
}

// q4_0 where it is measured, else the first row.
std::string DefaultReference(const std::vector<CacheChoice>& rows) { return rows.empty() || Names(rows, "q4_0") ? "q4_0" : rows[0].name; }

// Everything that can be wrong with the arguments, before any work.
Status Check(const EvalArguments& arguments, const std::vector<CacheChoice>& caches, std::string* text) {
  if (arguments.decode_tokens > arguments.context / 4) {
    return Status::Invalid(
        fmt::format("--decode-tokens {} is more than a quarter of the context ({} tokens)", arguments.decode_tokens, arguments.context));
  }
  const int room = arguments.context - QualityOptions{.context_tokens = arguments.context}.prompt_tokens();
  if (arguments.trajectories > 0 && arguments.trajectory_tokens > room) {
    return Status::Invalid(fmt::format("--greedy-tokens {} does not fit: a context of {} tokens has room for {} behind a prompt",
                                       arguments.trajectory_tokens, arguments.context, room));
  }
  if (arguments.score_from >= arguments.context - 1) {
    return Status::Invalid(
        fmt::format("--score-from {} leaves nothing of a context of {} tokens", arguments.score_from, arguments.context));
  }
  const int scored = arguments.context - (arguments.score_from > 0 ? arguments.score_from : arguments.context / 2);
  if (arguments.stride > 0 && arguments.stride < scored) {
    return Status::Invalid(fmt::format("--stride {} would score tokens twice; it is at least {} here", arguments.stride, scored));
  }
  if (!arguments.reference.empty() && !Names(caches, arguments.reference)) {
    return Status::Invalid(fmt::format("--reference {} is not one of the caches that are measured; it takes a name of --stock or of --kv",
                                       arguments.reference));
  }
  if (!arguments.sensitivity.empty()) {
    StatusOr<CacheSpec> spec = ParseSensitivitySpec(arguments.sensitivity);
    if (!spec.ok()) return Status(spec.status().code(), "--sensitivity " + spec.status().message());
  }
  if (StatusOr<Target> target = ChooseTarget(); !target.ok()) return target.status();
  for (const std::string& path : {arguments.json, arguments.html}) {
    if (path.empty()) continue;
    if (Status status = CheckWritable(path); !status.ok()) return status;
  }
  StatusOr<std::string> content = ReadFile(arguments.text);
  if (!content.ok()) return Status(content.status().code(), "text " + content.status().message());
  *text = std::move(*content);
  if (!arguments.sensitivity.empty() || std::any_of(caches.begin(), caches.end(), [](const CacheChoice& cache) { return !cache.stock; })) {
    if (StatusOr<std::string> plugin = FindPlugin(); !plugin.ok()) return plugin.status();
  }
  return {};
}

// Counts the changes after which a spec of the same text gives other figures.
constexpr int kFigures = 2;

// What a stored figure depends on. Caches, chunks and tasks are not among it: more of them may be asked for later.
Conditions ConditionsOf(const EvalArguments& arguments, const EvalReport& report, const std::vector<Token>& tokens) {
  std::error_code error;
  uint64_t hash = 0xcbf29ce484222325ull;
  for (Token token : tokens) hash = (hash ^ static_cast<uint64_t>(token)) * 0x100000001b3ull;
  return {{"model", fmt::format("{} ({} bytes)", arguments.model, std::filesystem::file_size(arguments.model, error))},
          {"text", fmt::format("{} tokens, {:016x}", tokens.size(), hash)},
          {"-c", std::to_string(arguments.context)},
          {"--stride", std::to_string(report.options.step())},
          {"--score-from", std::to_string(report.options.first_scored())},
          {"--ubatch", std::to_string(arguments.micro_batch)},
          {"--weights", arguments.weights},
          {"-t", std::to_string(arguments.threads)},
          {"target", report.target},
          {"swivel", fmt::format("{}, figures {}", SWIVEL_VERSION, kFigures)},
          {"llama.cpp", report.llama_build}};
}

}  // namespace

Status Evaluate(const EvalArguments& arguments, EvalReport* report) {
  StatusOr<std::vector<CacheChoice>> rows = Rows(arguments);
  if (!rows.ok()) return rows.status();
  StatusOr<std::vector<Task>> tasks = ParseTasks(arguments.tasks);
  if (!tasks.ok()) return tasks.status();
  StatusOr<std::vector<int>> depths = Integers("--depth", arguments.depth, ',', 0, 1 << 24);
  if (!depths.ok()) return depths.status();
  std::string text;
  if (Status status = Check(arguments, *rows, &text); !status.ok()) return status;

  StatusOr<std::string> model_path = WidenWeights(arguments.model, arguments.weights, arguments.threads);
  if (!model_path.ok()) return model_path.status();
  report->model = arguments.model;
  report->text = arguments.text;
  report->weights = arguments.weights;
  report->cpu = CpuName();
  report->target = TargetName(*ChooseTarget());
  report->llama_build = LlamaBuild();
  report->command = OwnCommandLine();
  for (const int depth : *depths) report->depths.push_back(depth > 0 ? depth : arguments.context);
  report->depth = report->depths[0];
  report->rounds = arguments.rounds;
  QualityOptions& options = report->options;
  report->reference = arguments.reference.empty() ? DefaultReference(*rows) : arguments.reference;
  options.context_tokens = arguments.context;
  options.chunks = arguments.chunks;
  options.stride = arguments.stride;
  options.score_from = arguments.score_from;
  options.micro_batch = arguments.micro_batch;
  options.trajectories = arguments.trajectories;
  options.trajectory_tokens = arguments.trajectory_tokens > 0 ? arguments.trajectory_tokens : std::min(64, arguments.context / 2);
  options.decode_tokens = arguments.decode_tokens >= 0 ? arguments.decode_tokens : std::min(128, arguments.context / 4);
  options.task_rounds = arguments.task_rounds;
  options.threads = arguments.threads;

  // q8_0 and q4_0 are rows that a model may refuse (head widths that are no multiple of 32); the others were asked for by name.
  std::vector<Candidate> candidates;
  for (const CacheChoice& cache : *rows) candidates.push_back({cache, /*must_run=*/cache.name != "q8_0" && cache.name != "q4_0"});

  Progress progress;
  {
    ModelPair models(*model_path);
    StatusOr<Model*> model = models.Get(Model::Devices::kCpu);
    if (!model.ok()) return model.status();
    report->model_description = (*model)->description();
    if (arguments.context > (*model)->train_context()) {
      fmt::print(stderr, "swivel eval: warning: -c {} is beyond the {} tokens this model was trained on; all caches suffer\n",
                 arguments.context, (*model)->train_context());
    }
    const std::vector<Token> tokens = (*model)->Tokenize(text, /*add_special=*/true, /*parse_special=*/false);
    const int64_t behind_first = static_cast<int64_t>(tokens.size()) - options.context_tokens;
    const int available = behind_first < 0 ? 0 : static_cast<int>(behind_first / options.step() + 1);
    if (available < 1) {
      return Status::Invalid(fmt::format("text '{}' has {} tokens, which is less than one context of {}; use a longer text or a smaller -c",
                                         arguments.text, tokens.size(), arguments.context));
    }
    if (options.chunks == 0) options.chunks = available;
    if (options.chunks > available) {
      fmt::print(stderr, "swivel eval: warning: the text holds {} of the {} chunks asked for\n", available, options.chunks);
      options.chunks = available;
    }
    auto store = std::make_unique<Store>();
    if (!arguments.state.empty()) {
      StatusOr<std::unique_ptr<Store>> opened = Store::Open(arguments.state, ConditionsOf(arguments, *report, tokens));
      if (!opened.ok()) return opened.status();
      store = std::move(*opened);
    }
    StatusOr<QualityReport> quality = EvaluateQuality(models, tokens, candidates, options, store.get(), &progress);
    if (!quality.ok()) return quality.status();
    report->quality = std::move(*quality);
    if (Status status = EvaluateTasks(models, tokens, *tasks, options, store.get(), &progress, &report->quality); !status.ok())
      return status;
    SetVerdicts(report);
    if (!arguments.sensitivity.empty()) {
      StatusOr<LayerSensitivity> layers = EvaluateSensitivity(models, tokens, arguments.sensitivity, options, store.get(), &progress);
      if (!layers.ok()) return layers.status();
      report->sensitivity = std::move(*layers);
    }
  }
  if (arguments.no_speed) {
    report->depths.clear();
    return {};
  }
  // All depths in one list, so that caches alternate at each depth within a round.
  std::vector<MeasureRequest> requests;
  for (const int depth : report->depths) {
    for (const CacheQuality& cache : report->quality.caches) {
      MeasureRequest request;
      request.model = *model_path;
      request.kv = cache.cache.name;
      request.text = arguments.text;
      request.depth = depth;
      request.threads = arguments.threads;
      requests.push_back(request);
    }
  }
  StatusOr<std::vector<Measurement>> speed = MeasureAll(requests, arguments.rounds, &progress);
  if (!speed.ok()) return speed.status();
  const auto num_caches = static_cast<long>(report->quality.caches.size());
  for (auto from = speed->begin(); from != speed->end(); from += num_caches) report->speed_at.emplace_back(from, from + num_caches);
  report->speed = report->speed_at[0];
  return {};
}

}  // namespace swivel::cli
