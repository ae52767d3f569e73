// Speed of attention alone: Swivel's kernels on packed codes beside llama.cpp's flash attention on its own cache types.
//
// All candidates of a size live in one process and take turns round by round, so that a drifting clock or a neighbour meets all alike;
// both sides use the same number of threads, which stay between calls. Every call reads another of several caches ("layers"; together
// about 64 MiB), as the layers of a model do: a small cache would stay in the processor's own cache and look faster than it is.
// Swivel's time includes rotating the queries and the output; llama.cpp's does not (it rotates q4_0 and q8_0 outside of the operation).
#ifndef SWIVEL_EVAL_BENCH_OPS_H_
#define SWIVEL_EVAL_BENCH_OPS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/status.h"
#include "eval/progress.h"
#include "llama/cache_choice.h"

namespace swivel {

// A call: `num_queries` queries, the last of `num_cells` tokens, each of which sees what is not behind it.
struct OpSize {
  std::string op;  // what the row is called: "decode", "prefill"
  int num_queries = 1;
  int64_t num_cells = 4096;
};

struct BenchOpsOptions {
  std::vector<OpSize> sizes;
  std::vector<CacheChoice> caches;
  int num_heads = 32;
  int num_kv_heads = 8;
  int head_width = 128;
  int threads = 1;
  int rounds = 5;
  Target target = Target::kPortable;
};

// A figure above it says that the machine was not quiet. llama.cpp's threads wait for each other in loops: when another process takes
// the processor of one, all lose a time slice at each step, which makes llama.cpp look much slower than it is.
inline constexpr double kQuietProcessors = 0.1;

// A figure for each of llama.cpp's own caches, where it was measured in the same run.
struct StockFigures {
  std::optional<double> f16, q8_0, q4_0;
};
// Keeps `speed` where `kv` is the name of one of them ("stock:f16").
void KeepStock(const std::string& kv, std::optional<double> speed, StockFigures* speeds);
// How many times as fast as each.
StockFigures TimesAsFast(std::optional<double> speed, const StockFigures& speeds);

struct OpRow {
  std::string kv;  // "turbo4", "stock:f16"
  OpSize size;
  std::optional<std::string> target;                // of Swivel's kernels; llama.cpp chooses for itself
  std::optional<double> ms;                         // of a call, median
  std::optional<double> ms_min, ms_max, ms_p10, ms_p90;  // no spread below three calls
  int calls = 0;
  std::optional<double> gbps;          // bytes of one cache (K and V, scales counted) / median time
  std::optional<double> share_of_stream;  // gbps / what the same threads reach when they only read memory, measured in the same rounds
  StockFigures ratio;                  // median of llama.cpp's / this median
  std::optional<double> others_busy;   // processors that other processes used meanwhile (system_info.h)
  std::string failure;                 // why nothing was measured
};

// What "stock:" rows and Swivel's are called in tables: llama.cpp's f16 is "stock:f16", Swivel's "swivel:f16".
std::string BenchName(const CacheChoice& cache);

// A row for each cache of each size, in that order. A cache that cannot serve the shape gives a row with `failure`. A candidate stops
// early when its calls have taken ten seconds.
StatusOr<std::vector<OpRow>> BenchOps(const BenchOpsOptions& options, Progress* progress);

}  // namespace swivel

#endif  // SWIVEL_EVAL_BENCH_OPS_H_
