// The figures of an evaluation as pure functions of logits and of per-position values. docs/evaluation.md gives the formulas.
//
// All sums are in double: the smallest divergences that are reported (1e-7 nats) are below the resolution of float sums over a
// vocabulary. A NaN in the input gives a NaN, never a figure.
#ifndef SWIVEL_EVAL_METRICS_H_
#define SWIVEL_EVAL_METRICS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace swivel {

// ln sum_i exp(x_i), without overflow. Not for empty input.
double LogSumExp(std::span<const float> logits);

// KL(p||q) = sum_i p_i (ln p_i - ln q_i) in nats of the distributions softmax(p_logits), softmax(q_logits); *_lse are their
// LogSumExp. Both spans have one length.
double KlDivergence(std::span<const float> p_logits, double p_lse, std::span<const float> q_logits, double q_lse);

// The index of the largest value, the first of equal ones.
size_t ArgMax(std::span<const float> values);

// The five most likely tokens, most likely first, the first of equal ones before. A vocabulary of fewer leaves UINT32_MAX in the rest.
inline constexpr size_t kTopTokens = 5;
using TopTokens = std::array<uint32_t, kTopTokens>;
TopTokens TopOf(std::span<const float> logits);
// How many tokens both name, in any order, as a share of five.
double TopOverlap(const TopTokens& a, const TopTokens& b);

// A mean and its standard error. Neighbouring positions share their context, so their values correlate and sd/sqrt(n) is too small:
// the error is that of the means of blocks of consecutive positions.
struct MeanError {
  double mean = 0;
  std::optional<double> error;  // absent with fewer than four blocks: a spread of two or three says nothing
};
// 64 positions, or an eighth of all where that is less (but at least 8), so that a short run still has a spread.
size_t BlockLength(size_t num_values);
// Where the blocks of MeanByBlocks are: [begin, end) of each.
std::vector<std::pair<size_t, size_t>> Blocks(std::span<const size_t> run_lengths, size_t block);
// `values` are runs of consecutive positions of the given lengths (one a chunk), one after another; a run is cut into
// max(1, round(length / block)) nearly equal blocks, which never span two runs. 0 takes BlockLength(values.size()).
MeanError MeanByBlocks(std::span<const double> values, std::span<const size_t> run_lengths, size_t block = 0);

// exp(mean of -ln p(token)) and its standard error, exp(mean) times the error of the mean.
MeanError Perplexity(std::span<const double> negative_log_likelihoods, std::span<const size_t> run_lengths);

// Linear interpolation between order statistics at fraction * (n - 1), as numpy and llama-perplexity do. `sorted` ascending, not empty.
double Percentile(std::span<const double> sorted, double fraction);

// Of a value a position. A percentile is absent where too few positions lie above it to say anything: fewer than one.
struct Summary {
  size_t positions = 0;
  size_t invalid = 0;  // NaN or infinite values; any makes the mean NaN, so that damage cannot hide
  std::optional<double> mean, mean_err, median, p90, p99, p999, max;
  std::optional<size_t> max_at = {};  // the index of the largest value
};
Summary Summarize(std::span<const double> values, std::span<const size_t> run_lengths);

// The mean over positions begin ... end-1 of all contexts: does the loss grow with depth?
struct PositionBucket {
  int begin = 0, end = 0;
  size_t positions = 0;
  MeanError mean;
};
// Runs begin at `first_position` of their contexts and are of one length; that length is cut into `num_buckets` nearly equal parts (fewer
// where it is shorter than 8 positions a bucket).
std::vector<PositionBucket> MeansByPosition(std::span<const double> values, std::span<const size_t> run_lengths, int first_position,
                                            int num_buckets = 8);

// The middle value, the mean of the middle two of an even count. Not for empty input.
double Median(std::vector<double> values);

}  // namespace swivel

#endif  // SWIVEL_EVAL_METRICS_H_
