// `swivel eval`: what caches cost in quality, memory and speed, against the model's own f16 cache and llama.cpp's q8_0 and q4_0.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/cpu.h"
#include "cache/spec.h"
#include "cli/commands.h"
#include "eval/measure.h"
#include "eval/output_file.h"
#include "eval/progress.h"
#include "eval/quality.h"
#include "eval/report.h"
#include "eval/system_info.h"
#include "llama/cache_choice.h"
#include "llama/f32_weights.h"
#include "llama/log.h"
#include "llama/model.h"
#include "llama/plugin.h"

namespace swivel::cli {
namespace {

struct EvalArguments {
  std::string model, text, kv = "turbo4,turbo3", weights = "as-is", json, format = "md";
  int context = 2048, chunks = 3, threads = DefaultThreads(), decode_tokens = -1, depth = 0, rounds = 1;
  int measure_prompt = 0, measure_generate = 0;
  bool no_speed = false, verbose = false, measure_one = false;
};

int Fail(const Status& status) {
  fmt::print(stderr, "swivel eval: error: {}\n", status.message());
  return 1;
}

std::string OwnCommandLine() {
  StatusOr<std::string> text = ReadFile("/proc/self/cmdline");
  if (!text.ok()) return {};
  while (!text->empty() && text->back() == '\0') text->pop_back();
  std::replace(text->begin(), text->end(), '\0', ' ');
  return *text;
}

// Everything that can be wrong with the arguments, before any work.
Status Check(const EvalArguments& arguments, const std::vector<CacheChoice>& caches, std::string* text) {
  if (arguments.decode_tokens > arguments.context / 2) {
    return Status::Invalid(fmt::format("--decode-tokens {} is more than half of the context ({} tokens)", arguments.decode_tokens,
                                       arguments.context));
  }
  if (StatusOr<Target> target = ChooseTarget(); !target.ok()) return target.status();
  if (!arguments.json.empty()) {
    if (Status status = CheckWritable(arguments.json); !status.ok()) return status;
  }
  StatusOr<std::string> content = ReadFile(arguments.text);
  if (!content.ok()) return Status(content.status().code(), "text " + content.status().message());
  *text = std::move(*content);
  if (std::any_of(caches.begin(), caches.end(), [](const CacheChoice& cache) { return !cache.stock; })) {
    if (StatusOr<std::string> plugin = FindPlugin(); !plugin.ok()) return plugin.status();
  }
  return {};
}

Status Evaluate(const EvalArguments& arguments, EvalReport* report) {
  StatusOr<std::vector<CacheChoice>> asked = ParseCacheList(arguments.kv);
  if (!asked.ok()) return asked.status();
  std::string text;
  if (Status status = Check(arguments, *asked, &text); !status.ok()) return status;

  std::string model_path = arguments.model;
  if (arguments.weights == "f32") {
    StatusOr<std::string> expanded = ExpandToF32(arguments.model, arguments.threads);
    if (!expanded.ok()) return expanded.status();
    model_path = *expanded;
  }
  report->model = arguments.model;
  report->text = arguments.text;
  report->weights = arguments.weights;
  report->cpu = CpuName();
  report->target = TargetName(*ChooseTarget());
  report->llama_build = LlamaBuild();
  report->command = OwnCommandLine();
  report->depth = arguments.depth > 0 ? arguments.depth : arguments.context;
  report->rounds = arguments.rounds;
  QualityOptions& options = report->options;
  options.context_tokens = arguments.context;
  options.chunks = arguments.chunks;
  options.decode_tokens = arguments.decode_tokens >= 0 ? arguments.decode_tokens : std::min(128, arguments.context / 2);
  options.threads = arguments.threads;

  // The base is row one; the stock caches are rows that a model may refuse (head widths that are no multiple of 32).
  std::vector<Candidate> candidates;
  for (const char* name : {"q8_0", "q4_0"}) candidates.push_back({*ParseCacheChoice(name), /*must_run=*/false});
  for (const CacheChoice& cache : *asked) {
    const bool shown_anyway = cache.name == "f16" || cache.name == "q8_0" || cache.name == "q4_0";
    if (!shown_anyway) candidates.push_back({cache, /*must_run=*/true});
  }

  Progress progress;
  {
    ModelPair models(model_path);
    StatusOr<Model*> model = models.Get(Model::Devices::kCpu);
    if (!model.ok()) return model.status();
    report->model_description = (*model)->description();
    if (arguments.context > (*model)->train_context()) {
      fmt::print(stderr, "swivel eval: warning: -c {} is beyond the {} tokens this model was trained on; all caches suffer\n",
                 arguments.context, (*model)->train_context());
    }
    const std::vector<Token> tokens = (*model)->Tokenize(text, /*add_special=*/true, /*parse_special=*/false);
    const int available = static_cast<int>(tokens.size() / static_cast<size_t>(arguments.context));
    if (available < 1) {
      return Status::Invalid(fmt::format("text '{}' has {} tokens, which is less than one context of {}; use a longer text or a smaller -c",
                                         arguments.text, tokens.size(), arguments.context));
    }
    if (options.chunks == 0) options.chunks = available;
    if (options.chunks > available) {
      fmt::print(stderr, "swivel eval: warning: the text holds {} of the {} chunks asked for\n", available, options.chunks);
      options.chunks = available;
    }
    StatusOr<QualityReport> quality = EvaluateQuality(models, tokens, candidates, options, &progress);
    if (!quality.ok()) return quality.status();
    report->quality = std::move(*quality);
  }
  if (arguments.no_speed) return {};

  std::vector<MeasureRequest> requests;
  for (const CacheQuality& cache : report->quality.caches) {
    MeasureRequest request;
    request.model = model_path;
    request.kv = cache.cache.name;
    request.text = arguments.text;
    request.depth = report->depth;
    request.threads = arguments.threads;
    requests.push_back(request);
  }
  StatusOr<std::vector<Measurement>> speed = MeasureAll(requests, arguments.rounds, &progress);
  if (!speed.ok()) return speed.status();
  report->speed = std::move(*speed);
  return {};
}

int RunEval(const EvalArguments& arguments) {
  CaptureLlamaLog(arguments.verbose);
  if (arguments.measure_one) {
    MeasureRequest request;
    request.model = arguments.model;
    request.kv = arguments.kv;
    request.text = arguments.text;
    request.depth = arguments.depth;
    request.threads = arguments.threads;
    request.prompt = arguments.measure_prompt;
    request.generate = arguments.measure_generate;
    StatusOr<Measurement> measurement = MeasureHere(request);
    if (!measurement.ok()) return Fail(measurement.status());
    fmt::print("{}\n", ToJson(*measurement));
    return 0;
  }
  EvalReport report;
  if (Status status = Evaluate(arguments, &report); !status.ok()) return Fail(status);
  if (!arguments.json.empty()) {
    if (Status status = WriteFile(arguments.json, ReportJson(report)); !status.ok()) return Fail(status);
  }
  const std::string text = arguments.format == "json"  ? ReportJson(report)
                           : arguments.format == "csv" ? ReportCsv(report)
                                                       : ReportMarkdown(report);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return Fail(Status::Io("cannot write to stdout"));
  }
  return 0;
}

}  // namespace

void AddEval(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<EvalArguments>();
  CLI::App* command = app.add_subcommand(
      "eval", "Measure what caches cost in quality, memory and speed, against the model's own f16 cache and llama.cpp's q8_0 and q4_0");
  command->add_option("-m,--model", arguments->model, "GGUF file")->required();
  command->add_option("-f,--file", arguments->text, "Text to evaluate on")->required();
  command->add_option("-c,--ctx-size", arguments->context, "Tokens of a chunk")->capture_default_str()->check(CLI::Range(64, 1 << 24));
  command->add_option("--chunks", arguments->chunks, "Chunks to evaluate; 0: the whole text")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  command->add_option("-t,--threads", arguments->threads, "Threads")->capture_default_str()->check(CLI::Range(1, 1024));
  command->add_option("--kv", arguments->kv, "Caches to measure beside f16, q8_0 and q4_0 (below)")->capture_default_str();
  command
      ->add_option("--weights", arguments->weights,
                   "as-is, or f32: expand quantized weights first, which takes away the rounding of activations")
      ->capture_default_str()
      ->check(CLI::IsMember({"as-is", "f32"}));
  command
      ->add_option("--decode-tokens", arguments->decode_tokens,
                   "Tokens decoded one by one; 0: do not measure the decode path (default: 128, or half of -c if that is less)")
      ->check(CLI::Range(0, 1 << 20));
  command->add_option("--depth", arguments->depth, "Tokens in the cache when speed is measured; 0: as -c")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 24));
  command->add_option("--rounds", arguments->rounds, "Rounds of the speed measurement; medians are shown")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->add_flag("--no-speed", arguments->no_speed, "Measure neither speed nor peak memory");
  command->add_option("--json", arguments->json, "Also write everything to this file");
  command->add_option("-o,--output", arguments->format, "What to print: md, csv or json")
      ->capture_default_str()
      ->check(CLI::IsMember({"md", "csv", "json"}));
  command->add_flag("-v,--verbose", arguments->verbose, "Show llama.cpp's log");
  // The child process of the speed measurement, of `swivel bench` too.
  command->add_flag("--measure-one", arguments->measure_one)->group("");
  command->add_option("--measure-prompt", arguments->measure_prompt)->group("");
  command->add_option("--measure-generate", arguments->measure_generate)->group("");
  command->footer(
      "--kv LIST: names separated by ';' or ','. f16, q8_0 and q4_0 are llama.cpp's own caches; stock:TYPE is any other of its types;\n"
      "swivel:f16 and swivel:q8_0 are Swivel's codecs of that name; everything else is a Swivel spec. A comma starts a new name before\n"
      "a piece without '=' and before a key that the spec already has (a bare codec has k= and v=): k=turbo4,v=turbo3,turbo4 are two.\n\n" +
      SpecHelp() +
      "\n\nExamples:\n"
      "  swivel eval -m model.gguf -f wiki.test.raw\n"
      "  swivel eval -m model.gguf -f wiki.test.raw -c 8192 --chunks 1 --kv 'k=turbo4,v=turbo3;turbo2;stock:q5_1' --json out.json\n"
      "  swivel eval -m model-Q4_K_M.gguf -f book.txt --weights f32 --no-speed\n"
      "docs/evaluation.md defines every figure.");
  command->callback([arguments, exit_code] { *exit_code = RunEval(*arguments); });
}

}  // namespace swivel::cli
