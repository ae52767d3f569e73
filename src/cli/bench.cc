// `swivel bench`: speed of attention alone, or of a model with -m, beside llama.cpp's own caches.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "cache/spec.h"
#include "cli/commands.h"
#include "cli/lists.h"
#include "eval/bench_model.h"
#include "eval/bench_ops.h"
#include "eval/bench_report.h"
#include "eval/progress.h"
#include "eval/system_info.h"
#include "llama/cache_choice.h"
#include "llama/log.h"
#include "llama/plugin.h"

namespace swivel::cli {
namespace {

constexpr int kMaxTokens = 1 << 24;

struct Arguments {
  std::string model, kv = "balanced,turbo4", stock = "f16,q8_0,q4_0", op = "decode", heads = "32:8", depth, queries, format = "md";
  int head_width = 128, prompt = 512, generate = 64, threads = DefaultThreads(), rounds = 0;
  bool verbose = false;
};

// --kv, then what --stock adds to it.
StatusOr<std::vector<CacheChoice>> Caches(const Arguments& arguments) {
  StatusOr<std::vector<CacheChoice>> stock = ParseStockList(arguments.stock);
  if (!stock.ok()) return stock.status();
  const std::string list = stock->empty() ? arguments.kv : arguments.kv + ";" + arguments.stock;
  StatusOr<std::vector<CacheChoice>> caches = ParseCacheList(list);
  if (!caches.ok()) return Status(caches.status().code(), "--kv: " + caches.status().message());
  if (caches->empty()) return Status::Invalid("--kv names no cache and --stock none takes llama.cpp's away: nothing to measure");
  return caches;
}

Status OpSizes(const Arguments& arguments, std::vector<OpSize>* sizes) {
  const std::vector<std::string> ops = SplitList(arguments.op);
  StatusOr<std::vector<int>> depths = Integers("--depth", arguments.depth.empty() ? "4096,32768" : arguments.depth, ',', 1, kMaxTokens);
  if (!depths.ok()) return depths.status();
  for (const std::string& op : ops) {
    if (op != "decode" && op != "prefill") return Status::Invalid(fmt::format("--op {}: '{}' is not decode or prefill", arguments.op, op));
    std::vector<int> queries = {op == "decode" ? 1 : 512};
    if (!arguments.queries.empty() && (op == "decode" || ops.size() == 1)) {
      StatusOr<std::vector<int>> given = Integers("--n-q", arguments.queries, ',', 1, 1 << 16);
      if (!given.ok()) return given.status();
      queries = *given;
    }
    for (const int num_queries : queries) {
      for (const int depth : *depths) {
        if (num_queries > depth) {
          return Status::Invalid(
              fmt::format("--depth {} is less than the {} queries of {} (--n-q): they are the last of its tokens", depth, num_queries, op));
        }
        sizes->push_back({op, num_queries, depth});
      }
    }
  }
  return {};
}

Status ParseHeads(const Arguments& arguments, BenchOpsOptions* options) {
  StatusOr<std::vector<int>> heads = Integers("--heads", arguments.heads, ':', 1, 4096);
  if (!heads.ok() || heads->size() != 2 || (*heads)[0] % (*heads)[1] != 0) {
    return Status::Invalid(
        fmt::format("--heads {}: query heads and KV heads as in 32:8, the first a multiple of the second, at most 4096", arguments.heads));
  }
  options->num_heads = (*heads)[0];
  options->num_kv_heads = (*heads)[1];
  return {};
}

// Prints, then says on stderr what makes figures doubtful. llama.cpp's own caches may refuse a shape or a model, Swivel's must not.
template <class Row, class Options>
Status Print(const std::vector<Row>& rows, const Options& options, BenchFormat format) {
  const std::string text = BenchText(rows, options, format);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return Status::Io("cannot write to stdout");
  }
  double busy = 0;
  size_t num_failed = 0;
  std::string must_run;
  for (const Row& row : rows) {
    busy = std::max(busy, row.others_busy.value_or(0));
    if (row.failure.empty()) continue;
    ++num_failed;
    fmt::print(stderr, "swivel bench: {}: not measured: {}\n", row.kv, row.failure);
    if (!row.kv.starts_with("stock:")) must_run = row.kv;
  }
  if (busy > kQuietProcessors) {
    fmt::print(stderr,
               "swivel bench: warning: other processes kept {:.1f} of {} processors busy meanwhile; on such a machine figures with several "
               "threads say little, and llama.cpp's suffer most\n",
               busy, DefaultThreads());
  }
  if (!must_run.empty()) return Status::Unsupported(fmt::format("{} was not measured", must_run));
  return num_failed < rows.size() ? Status() : Status::Unsupported("nothing was measured");
}

Status Bench(const Arguments& arguments) {
  const std::map<std::string, BenchFormat> formats = {
      {"md", BenchFormat::kMarkdown}, {"csv", BenchFormat::kCsv}, {"json", BenchFormat::kJson}, {"jsonl", BenchFormat::kJsonLines}};
  const BenchFormat format = formats.at(arguments.format);
  StatusOr<std::vector<CacheChoice>> caches = Caches(arguments);
  if (!caches.ok()) return caches.status();
  StatusOr<Target> target = ChooseTarget();
  if (!target.ok()) return target.status();
  Progress progress;

  if (!arguments.model.empty()) {
    BenchModelOptions options;
    options.model = arguments.model;
    options.caches = *caches;
    StatusOr<std::vector<int>> depths = Integers("--depth", arguments.depth.empty() ? "0" : arguments.depth, ',', 0, kMaxTokens);
    if (!depths.ok()) return depths.status();
    options.depths = *depths;
    options.prompt = arguments.prompt;
    options.generate = arguments.generate;
    options.threads = arguments.threads;
    if (arguments.rounds > 0) options.rounds = arguments.rounds;
    options.target = *target;
    if (std::FILE* file = std::fopen(arguments.model.c_str(), "rb"); file != nullptr) {
      std::fclose(file);
    } else {
      return Status::NotFound(fmt::format("model '{}' cannot be read", arguments.model));
    }
    if (std::any_of(caches->begin(), caches->end(), [](const CacheChoice& cache) { return !cache.stock; })) {
      if (StatusOr<std::string> plugin = FindPlugin(); !plugin.ok()) return plugin.status();
    }
    StatusOr<std::vector<ModelRow>> rows = BenchModel(options, &progress);
    if (!rows.ok()) return rows.status();
    return Print(*rows, options, format);
  }

  BenchOpsOptions options;
  options.caches = *caches;
  if (Status status = OpSizes(arguments, &options.sizes); !status.ok()) return status;
  if (Status status = ParseHeads(arguments, &options); !status.ok()) return status;
  options.head_width = arguments.head_width;
  options.threads = arguments.threads;
  if (arguments.rounds > 0) options.rounds = arguments.rounds;
  options.target = *target;
  StatusOr<std::vector<OpRow>> rows = BenchOps(options, &progress);
  if (!rows.ok()) return rows.status();
  return Print(*rows, options, format);
}

int RunBench(const Arguments& arguments) {
  CaptureLlamaLog(arguments.verbose);
  const Status status = Bench(arguments);
  if (!status.ok()) fmt::print(stderr, "swivel bench: error: {}\n", status.message());
  return status.ok() ? 0 : 1;
}

}  // namespace

void AddBench(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("bench", "Speed of attention alone, or with -m of a model, with Swivel's caches and llama.cpp's own in turns");
  CLI::Option* model = command->add_option("-m,--model", arguments->model, "GGUF file; without it, attention alone is measured");
  command->add_option("--kv", arguments->kv, "Caches to measure, named as in `swivel eval`")->capture_default_str();
  command->add_option("--stock", arguments->stock, "llama.cpp's caches beside them; none: no others")->capture_default_str();
  command->add_option("--depth", arguments->depth, "Tokens in the cache, a list [4096,32768; with -m 0]");
  command->add_option("-t,--threads", arguments->threads, "Threads")->capture_default_str()->check(CLI::Range(1, 512));
  command->add_option("--rounds", arguments->rounds, "Times that the caches take turns [5; with -m 3]")->check(CLI::Range(1, 1000));
  command->add_option("-o,--output", arguments->format, "md, csv, json (a list) or jsonl (a row a line)")
      ->capture_default_str()
      ->check(CLI::IsMember({"md", "csv", "json", "jsonl"}));
  command->add_flag("-v,--verbose", arguments->verbose, "Show llama.cpp's log");

  const std::string alone = "Attention alone (without -m)", whole = "A model (with -m)";
  command->add_option("--op", arguments->op, "decode, prefill or both, as a list")->capture_default_str()->excludes(model)->group(alone);
  command->add_option("--heads", arguments->heads, "Query heads:KV heads")->capture_default_str()->excludes(model)->group(alone);
  command->add_option("--head-dim", arguments->head_width, "Head width")
      ->capture_default_str()
      ->check(CLI::Range(kMinHeadWidth, kMaxHeadWidth))
      ->excludes(model)
      ->group(alone);
  command->add_option("--n-q", arguments->queries, "Queries of a decode call, a list [1]; of prefill when it is the only --op [512]")
      ->excludes(model)
      ->group(alone);
  command->add_option("-p,--prompt", arguments->prompt, "Tokens of the timed prompt")
      ->capture_default_str()
      ->check(CLI::Range(1, kMaxTokens))
      ->needs(model)
      ->group(whole);
  command->add_option("-n,--generate", arguments->generate, "Tokens of the timed generation")
      ->capture_default_str()
      ->check(CLI::Range(1, kMaxTokens))
      ->needs(model)
      ->group(whole);
  command->footer(
      "Attention alone is compared with ggml's flash attention in this process; a model is measured in a process of its own for each\n"
      "cache and round, behind --depth random tokens.\n\n" +
      SpecHelp() +
      "\n\nExamples:\n"
      "  swivel bench                                               # an 8B model's layer at 4096 and 32768 tokens\n"
      "  swivel bench --op decode,prefill --heads 14:2 --head-dim 64 --depth 4096 -t 4 -o json\n"
      "  swivel bench --n-q 1,4,8 --kv 'k=turbo4,v=turbo3;turbo2' --stock f16\n"
      "  swivel bench -m model.gguf --depth 0,8000 -p 512 -n 64 --kv turbo4\n"
      "docs/cli.md lists the keys of the output.");
  command->callback([arguments, exit_code] { *exit_code = RunBench(*arguments); });
}

}  // namespace swivel::cli
