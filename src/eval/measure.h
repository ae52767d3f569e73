// Speed and peak memory of one cache, each in a process of its own: the peak of a process cannot be taken back, and weights that are
// mapped twice would count twice.
#ifndef SWIVEL_EVAL_MEASURE_H_
#define SWIVEL_EVAL_MEASURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "eval/progress.h"

namespace swivel {

struct MeasureRequest {
  std::string model;
  std::string kv;    // a cache name (llama/cache_choice.h)
  std::string text;  // a file; its tokens are the prompt, repeated if there are too few. Empty: random tokens
  int depth = 2048;  // tokens in the cache when decoding is timed
  int prompt = 0;    // tokens of the timed prompt, behind `depth` others. 0: the `depth` tokens are the timed prompt
  int generate = 0;  // tokens of the timed generation. 0: at least 16 and 1.5 s, at most 126
  int threads = 1;
};

struct Measurement {
  std::optional<double> prefill_tps;  // tokens of the timed prompt / its time, in micro-batches of 512
  std::optional<double> decode_tps;   // one token at a time, from depth on
  // Of several rounds (MeasureAll); a single one has no spread.
  std::optional<double> prefill_tps_min, prefill_tps_max, prefill_tps_sd, decode_tps_min, decode_tps_max, decode_tps_sd;
  std::optional<int64_t> peak_rss_bytes;
  std::optional<int64_t> resident_bytes;  // of the cache, touched at the end; Swivel caches only
  std::string failure;                    // why nothing was measured
};

// In this process. Only the hidden `swivel eval --measure-one` calls it.
StatusOr<Measurement> MeasureHere(const MeasureRequest& request);

// Starts this program once for every request and round, caches alternating within a round so that a drifting clock or a neighbour
// meets all alike. Speeds are medians over rounds, peaks are largest values. A child that fails gives a Measurement with `failure`.
StatusOr<std::vector<Measurement>> MeasureAll(const std::vector<MeasureRequest>& requests, int rounds, Progress* progress);

// What the child prints and the parent reads.
std::string ToJson(const Measurement& measurement);
StatusOr<Measurement> MeasurementFromJson(const std::string& text);

}  // namespace swivel

#endif  // SWIVEL_EVAL_MEASURE_H_
