// What to measure next, and what to choose: the search of `swivel tune` as a pure function of what has been measured.
//
// Goals: the best cache within a limit for one model and one kind of text, decided by paired comparisons, and never a surprise: what is not
// better than a preset of at most the same cost beyond the noise of this text loses to the preset. Non-goals: finding an optimum. Levers
// that study and evaluation found to give nothing (docs/tuning.md) are not tried.
//
//   widths   pairs of K and V bits within the limit that no other pair within it covers       chunk 0
//   policies one change at a time to the best of them                                         chunk 0
//   layers   the changes that helped together; bits that are left over spent on some layers   chunk 0
//   finals   the best four and the preset                                                     the other search chunks
//   confirm  the best two and the preset: decides, and gives the expected figures             chunks that nothing before has seen
// With a limit on KLD all pairs are measured, and the policies and layers are those of pairs that are cheaper than the cheapest that keeps
// the limit and miss it by little; the cheapest that keeps it in `confirm` wins.
#ifndef SWIVEL_TUNE_SEARCH_H_
#define SWIVEL_TUNE_SEARCH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cache/spec.h"
#include "eval/metrics.h"
#include "eval/paired.h"

namespace swivel {

// One layer that has a cache, at the context for which bytes are counted.
struct TuneLayer {
  int heads_kv = 1, k_width = 0, v_width = 0;
  int64_t cells = 0;
};

struct TuneCost {
  double bits = 0;    // a packed value, side data counted
  int64_t bytes = 0;  // of a full cache: packed values, and at most so many exact rows (sinks, window, the group that is being filled)
};
TuneCost CostOf(const CacheSpec& spec, const std::vector<TuneLayer>& layers);

// Exactly one is set.
struct TuneLimit {
  std::optional<double> bits;
  std::optional<int64_t> bytes;
  std::optional<double> kld;
};

struct TuneProblem {
  TuneLimit limit;
  std::vector<TuneLayer> layers;
  std::string calibration = "self";
  int chunks = 6;         // of text
  int search_chunks = 2;  // the first ones; the others are for `confirm`. At least 1 and less than `chunks`
  int most_runs = 1000;   // a run: one spec on one chunk. What the last two stages need is kept back; the others do what they can
};

// KLDs of positions, by canonical spec and chunk.
class TuneResults {
 public:
  void Add(const std::string& spec, int chunk, std::vector<float> kld) { kld_[{spec, chunk}] = std::move(kld); }
  // Null when that was not measured.
  const std::vector<float>* Find(const std::string& spec, int chunk) const;
  // Of chunks first … last, one run each; empty when one is missing.
  std::pair<std::vector<float>, std::vector<size_t>> Collect(const std::string& spec, int first, int last) const;
  std::optional<MeanError> Mean(const std::string& spec, int first, int last) const;
  int size() const { return static_cast<int>(kld_.size()); }

 private:
  std::map<std::pair<std::string, int>, std::vector<float>> kld_;
};

// Measure these specs on chunks first … last (some may be there already).
struct TuneRequest {
  std::string stage;
  std::vector<std::string> specs;
  int first_chunk = 0, last_chunk = 0;
};

// A spec that took part, in the order of its first stage.
struct TuneRow {
  std::string stage, spec;
  std::string change;  // what sets it apart: "K3 V3", "transform=eq"
  TuneCost cost;
  bool fits = true;  // of a limit on bits or bytes; presets are measured in any case
};

struct TuneOutcome {
  std::string spec;      // the choice
  std::string preset;    // the name of the preset it had to beat; empty: none is within the limit
  std::string preset_spec;
  bool is_preset = false;
  bool keeps_limit = true;        // false: a limit on KLD that nothing keeps
  std::optional<MeanError> kld;   // expected: on the chunks of `confirm`
  std::optional<MeanError> preset_kld;
  PairedDifference against_preset;  // on the same chunks
  std::string reason;               // one sentence
};

// What to do now: exactly one of request and outcome is set. Deterministic; called again after each request with what was measured for it,
// it goes on. `rows` grow from call to call. Errors: kInvalidArgument when nothing is within the limit (the message says what is the least).
struct TuneStep {
  std::optional<TuneRequest> request;
  std::optional<TuneOutcome> outcome;
  std::vector<TuneRow> rows;
};
StatusOr<TuneStep> NextStep(const TuneProblem& problem, const TuneResults& results);

// The runs that a search takes at most, for a plan: widths and the last two stages, and everything.
struct TuneRuns {
  int least = 0, most = 0;
};
TuneRuns RunsOf(const TuneProblem& problem);

// Which of `slots` pieces of a text, at least `chunks`, a chunk is: no two are the same, and the first few of them are spread over the text.
int64_t SlotOfChunk(int chunk, int chunks, int64_t slots);

}  // namespace swivel

#endif  // SWIVEL_TUNE_SEARCH_H_
