// Speed of a model with a cache, at depths: a prompt and a generation behind `depth` other tokens. The measuring is eval/measure.h's.
#ifndef SWIVEL_EVAL_BENCH_MODEL_H_
#define SWIVEL_EVAL_BENCH_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/status.h"
#include "eval/bench_ops.h"
#include "eval/progress.h"
#include "llama/cache_choice.h"

namespace swivel {

struct BenchModelOptions {
  std::string model;
  std::vector<CacheChoice> caches;
  std::vector<int> depths;
  int prompt = 512;
  int generate = 64;
  int threads = 1;
  int rounds = 3;
  Target target = Target::kPortable;
};

struct ModelRow {
  std::string kv;
  std::string test;  // as llama-bench names them: "pp512", "tg64"
  int depth = 0;
  int num_tokens = 0;
  std::optional<std::string> target;                   // of Swivel's kernels
  std::optional<double> tps;                           // median over rounds
  std::optional<double> tps_min, tps_max, tps_sd;      // no spread with one round
  StockFigures ratio;                                  // this median / that of llama.cpp's
  std::optional<int64_t> peak_rss_bytes;               // of the process, weights included
  std::optional<double> others_busy;                   // of the whole run; see bench_ops.h
  std::string failure;
};

// Rows for each depth and cache, prefill before decode.
StatusOr<std::vector<ModelRow>> BenchModel(const BenchModelOptions& options, Progress* progress);

}  // namespace swivel

#endif  // SWIVEL_EVAL_BENCH_MODEL_H_
