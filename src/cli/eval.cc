// `swivel eval`: what caches cost in quality, memory and speed, against the model's own f16 cache and llama.cpp's q8_0 and q4_0.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "cache/spec.h"
#include "cli/commands.h"
#include "cli/eval_arguments.h"
#include "eval/measure.h"
#include "eval/output_file.h"
#include "eval/report.h"
#include "eval/report_html.h"
#include "llama/log.h"
#include "llama/wide_weights.h"

namespace swivel::cli {
namespace {

int Fail(const Status& status) {
  fmt::print(stderr, "swivel eval: error: {}\n", status.message());
  return 1;
}

int RunEval(const EvalArguments& arguments) {
  CaptureLlamaLog(arguments.verbose);
  if (arguments.measure_one) {
    MeasureRequest request;
    request.model = arguments.model;
    request.kv = arguments.kv;
    request.text = arguments.text;
    request.depth = std::atoi(arguments.depth.c_str());
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
  if (!arguments.html.empty()) {
    if (Status status = WriteFile(arguments.html, ReportHtml(report)); !status.ok()) return Fail(status);
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
  command->add_option("--kv", arguments->kv, "Caches to measure (below)")->capture_default_str();
  command->add_option("--stock", arguments->stock, "llama.cpp's own caches to measure beside them, or none")->capture_default_str();
  command
      ->add_option("--weights", arguments->weights, kWeightsHelp)
      ->capture_default_str()
      ->check(CLI::IsMember({"as-is", "f16", "f32"}));
  command
      ->add_option("--ubatch", arguments->micro_batch,
                   "Tokens of a micro-batch of prompts. More than 128 flatters caches that keep recent tokens exact")
      ->capture_default_str()
      ->check(CLI::Range(16, 4096));
  command->add_option("--stride", arguments->stride, "Tokens between the beginnings of chunks; 0: as -c. -c / 2 scores every token")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 24));
  command
      ->add_option("--score-from", arguments->score_from, "First position of a chunk that is scored; 0: its middle, as in llama-perplexity")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 24));
  command->add_option("--reference", arguments->reference, "The cache that the others are judged against: better, worse or can't tell (default: q4_0)");
  command->add_option("--greedy", arguments->trajectories, "Greedy continuations compared with those of f16; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000));
  command->add_option("--greedy-tokens", arguments->trajectory_tokens, "Tokens of each (default: 64, or half of -c if that is less)")
      ->check(CLI::Range(1, 1 << 16));
  command
      ->add_option("--decode-tokens", arguments->decode_tokens,
                   "Tokens decoded one by one; 0: do not measure the decode path (default: 128, or a quarter of -c if that is less)")
      ->check(CLI::Range(0, 1 << 20));
  command->add_option("--depth", arguments->depth, "Tokens in the cache when speed is measured, a list; 0: as -c")->capture_default_str();
  command->add_option("--rounds", arguments->rounds, "Rounds of the speed measurement; medians are shown")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->add_flag("--no-speed", arguments->no_speed, "Measure neither speed nor peak memory");
  command->add_option("--tasks", arguments->tasks, "Tasks that break first: all, none, or a list of copy, needle, json, repeat")
      ->capture_default_str();
  command->add_option("--task-rounds", arguments->task_rounds, "Sets of prompts of copy, needle and json: one tells broken from whole, ten tell caches apart")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  command->add_option("--sensitivity", arguments->sensitivity,
                      "A spec: measure it in the keys, then the values, of each layer alone, on one chunk (long: two runs a layer)");
  command->add_option("--state", arguments->state,
                      "Keep what is finished in this file; the same command again goes on from there, also with other caches");
  command->add_option("--json", arguments->json, "Also write everything to this file");
  command->add_option("--html", arguments->html, "Also write a page for a browser to this file");
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
      "a piece without '=' and, where the list has no ';', before a key that the spec already has (a name alone has k= and v=):\n"
      "k=turbo4,v=turbo3,turbo4 are two; in 'balanced,k=tcq4;tiny' the key belongs to balanced.\n\n" +
      SpecHelp() +
      "\n\nExamples:\n"
      "  swivel eval -m model.gguf -f wiki.test.raw\n"
      "  swivel eval -m model.gguf -f wiki.test.raw -c 8192 --chunks 1 --kv 'k=turbo4,v=turbo3;turbo2;stock:q5_1' --json out.json\n"
      "  swivel eval -m model-Q4_K_M.gguf -f book.txt --weights f32 --no-speed\n"
      "  swivel eval -m model.gguf -f book.txt --tasks all --state night.jsonl --json out.json --html out.html\n"
      "docs/evaluation.md defines every figure.");
  command->callback([arguments, exit_code] { *exit_code = RunEval(*arguments); });
}

}  // namespace swivel::cli
