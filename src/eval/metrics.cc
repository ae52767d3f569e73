#include "eval/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace swivel {

double LogSumExp(std::span<const float> logits) {
  const double largest = logits[ArgMax(logits)];
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

double KlDivergence(std::span<const float> p_logits, double p_lse, std::span<const float> q_logits, double q_lse) {
  double sum = 0;
  for (size_t i = 0; i < p_logits.size(); ++i) {
    const double log_p = p_logits[i] - p_lse;
    const double p = std::exp(log_p);
    // 0 ln 0 = 0: a token that a model rules out with a logit of -inf must not turn the sum into NaN.
    if (p == 0) continue;
    sum += p * (log_p - (q_logits[i] - q_lse));
  }
  return sum;
}

size_t ArgMax(std::span<const float> values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

TopTokens TopOf(std::span<const float> logits) {
  TopTokens top;
  top.fill(UINT32_MAX);
  size_t count = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    // Most values are below the fifth so far: one comparison each.
    if (count == kTopTokens && !(logits[i] > logits[top[count - 1]])) continue;
    size_t place = count < kTopTokens ? count++ : kTopTokens - 1;
    for (; place > 0 && logits[i] > logits[top[place - 1]]; --place) top[place] = top[place - 1];
    top[place] = static_cast<uint32_t>(i);
  }
  return top;
}

double TopOverlap(const TopTokens& a, const TopTokens& b) {
  size_t shared = 0;
  for (uint32_t token : a) shared += token != UINT32_MAX && std::find(b.begin(), b.end(), token) != b.end() ? 1 : 0;
  return static_cast<double>(shared) / static_cast<double>(kTopTokens);
}

size_t BlockLength(size_t num_values) { return std::clamp<size_t>(num_values / 8, 8, 64); }

std::vector<std::pair<size_t, size_t>> Blocks(std::span<const size_t> run_lengths, size_t block) {
  std::vector<std::pair<size_t, size_t>> bounds;
  size_t begin = 0;
  for (size_t length : run_lengths) {
    const size_t count = std::max<size_t>(1, (length + block / 2) / block);
    for (size_t b = 0; b < count && length > 0; ++b) bounds.emplace_back(begin + length * b / count, begin + length * (b + 1) / count);
    begin += length;
  }
  return bounds;
}

MeanError MeanByBlocks(std::span<const double> values, std::span<const size_t> run_lengths, size_t block) {
  if (block == 0) block = BlockLength(values.size());
  MeanError result;
  if (values.empty()) {
    result.mean = std::numeric_limits<double>::quiet_NaN();
    return result;
  }
  const double count = static_cast<double>(values.size());
  double sum = 0;
  for (double value : values) sum += value;
  result.mean = sum / count;

  // The mean is sum_b n_b m_b / N. With blocks taken as independent its variance is estimated by
  // M/(M-1) sum_b (n_b (m_b - mean))^2 / N^2, which for equal blocks is the usual sd(m_b)^2 / M.
  double squares = 0;
  const auto all_blocks = Blocks(run_lengths, block);
  for (const auto& [from, to] : all_blocks) {
    double deviation = 0;
    for (size_t i = from; i < to; ++i) deviation += values[i] - result.mean;
    squares += deviation * deviation;
  }
  const size_t num_blocks = all_blocks.size();
  if (num_blocks >= 4) {
    const double blocks = static_cast<double>(num_blocks);
    result.error = std::sqrt(blocks / (blocks - 1) * squares) / count;
  }
  return result;
}

MeanError Perplexity(std::span<const double> negative_log_likelihoods, std::span<const size_t> run_lengths) {
  MeanError result = MeanByBlocks(negative_log_likelihoods, run_lengths);
  result.mean = std::exp(result.mean);
  if (result.error) *result.error *= result.mean;
  return result;
}

double Percentile(std::span<const double> sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double weight = position - static_cast<double>(below);
  return (1 - weight) * sorted[below] + weight * sorted[above];
}

Summary Summarize(std::span<const double> values, std::span<const size_t> run_lengths) {
  Summary summary;
  summary.positions = values.size();
  if (values.empty()) return summary;
  std::vector<double> sorted;
  for (double value : values) {
    if (std::isfinite(value)) sorted.push_back(value);
  }
  summary.invalid = values.size() - sorted.size();
  if (summary.invalid > 0) {
    summary.mean = summary.max = std::numeric_limits<double>::quiet_NaN();
    return summary;
  }
  std::sort(sorted.begin(), sorted.end());
  const MeanError mean = MeanByBlocks(values, run_lengths);
  summary.mean = mean.mean;
  summary.mean_err = mean.error;
  summary.median = Percentile(sorted, 0.5);
  if (sorted.size() >= 10) summary.p90 = Percentile(sorted, 0.9);
  if (sorted.size() >= 100) summary.p99 = Percentile(sorted, 0.99);
  if (sorted.size() >= 1000) summary.p999 = Percentile(sorted, 0.999);
  summary.max = sorted.back();
  summary.max_at = static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
  return summary;
}

std::vector<PositionBucket> MeansByPosition(std::span<const double> values, std::span<const size_t> run_lengths, int first_position,
                                            int num_buckets) {
  constexpr size_t kLeast = 8;
  std::vector<PositionBucket> buckets;
  if (run_lengths.empty()) return buckets;
  const size_t length = run_lengths[0];
  const size_t count = std::clamp<size_t>(length / kLeast, 1, static_cast<size_t>(num_buckets));
  for (size_t b = 0; b < count; ++b) {
    const size_t from = length * b / count, to = length * (b + 1) / count;
    std::vector<double> inside;
    for (size_t begin = 0; begin + length <= values.size(); begin += length) {
      inside.insert(inside.end(), values.begin() + static_cast<long>(begin + from), values.begin() + static_cast<long>(begin + to));
    }
    const std::vector<size_t> runs(inside.size() / std::max<size_t>(1, to - from), to - from);
    buckets.push_back(
        {first_position + static_cast<int>(from), first_position + static_cast<int>(to), inside.size(), MeanByBlocks(inside, runs)});
  }
  return buckets;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return Percentile(values, 0.5);
}

}  // namespace swivel
