#include "eval/softmax_probe.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "eval/vector_math.h"

namespace swivel {
namespace {

constexpr double kLeastUnit = 1e-30;  // a vector as short as this has no direction

std::vector<double> MeanRow(std::span<const float> keys, size_t width) {
  std::vector<double> mean(width);
  for (size_t i = 0; i < keys.size(); ++i) mean[i % width] += keys[i];
  for (double& value : mean) value *= static_cast<double>(width) / static_cast<double>(keys.size());
  return mean;
}

double NormOf(const std::vector<double>& row) {
  return std::sqrt(SumOf(row.size(), [&](size_t i) { return row[i] * row[i]; }));
}

// Logits g_i + t n_i before they are scaled, and what the trial asks of them.
struct Mix {
  std::vector<double> g, n;  // <direction, key - mean of keys>
  std::vector<char> is_needle;

  // The factor that gives the logits of the other keys their standard deviation; 0 when they are all alike.
  double Scale(double t) const {
    double sum = 0, squares = 0, count = 0;
    for (size_t i = 0; i < g.size(); ++i) {
      if (is_needle[i]) continue;
      const double logit = g[i] + t * n[i];
      sum += logit;
      squares += logit * logit;
      ++count;
    }
    const double variance = squares / count - sum / count * (sum / count);
    return variance > 1e-20 * squares / count ? SoftmaxProbe::kLogitDeviation / std::sqrt(variance) : 0;
  }

  double NeedleMass(double t) const {
    const double scale = Scale(t);
    double largest = -INFINITY;
    for (size_t i = 0; i < g.size(); ++i) largest = std::max(largest, scale * (g[i] + t * n[i]));
    double all = 0, needles = 0;
    for (size_t i = 0; i < g.size(); ++i) {
      const double weight = std::exp(scale * (g[i] + t * n[i]) - largest);
      all += weight;
      if (is_needle[i]) needles += weight;
    }
    return needles / all;
  }

  // The t with half of the mass on the needles, by bisection: more of the needles' direction is more mass on them.
  double NeedleShare() const {
    constexpr double kMost = 64;  // beyond it the random direction no longer matters
    if (NeedleMass(kMost) < 0.5) return kMost;
    double low = 0, high = kMost;
    for (int step = 0; step < 24; ++step) {
      const double middle = (low + high) / 2;
      (NeedleMass(middle) < 0.5 ? low : high) = middle;
    }
    return high;
  }
};

// <query, key> for each key, less the mean. Centred in double: a float would lose the differences behind a large common part.
std::vector<float> CentredLogits(std::span<const float> query, std::span<const float> keys) {
  const size_t width = query.size(), count = keys.size() / width;
  std::vector<double> logits(count);
  for (size_t i = 0; i < count; ++i) logits[i] = Dot(query, keys.subspan(i * width, width));
  const double mean = SumOf(count, [&](size_t i) { return logits[i]; }) / static_cast<double>(count);
  std::vector<float> centred(count);
  for (size_t i = 0; i < count; ++i) centred[i] = static_cast<float>(logits[i] - mean);
  return centred;
}

}  // namespace

SoftmaxProbe::SoftmaxProbe(const std::vector<std::span<const float>>& blocks, int width, size_t trials_a_block, uint64_t seed)
    : width_(width), trials_(blocks.size()) {
  const auto columns = static_cast<size_t>(width);
  Random random(SplitMix64(seed ^ 0x6e6565646c65ull));
  for (size_t block = 0; block < blocks.size(); ++block) {
    const std::span<const float> keys = blocks[block];
    const size_t count = keys.size() / columns;
    if (count < kLeastKeys) continue;
    const std::vector<double> mean = MeanRow(keys, columns);
    const auto project = [&](const std::vector<double>& direction) {
      std::vector<double> result(count);
      for (size_t i = 0; i < count; ++i) {
        result[i] = SumOf(columns, [&](size_t j) { return direction[j] * (keys[i * columns + j] - mean[j]); });
      }
      return result;
    };
    for (size_t trial = 0; trial < trials_a_block; ++trial) {
      std::vector<double> direction(columns), needles(columns);
      for (double& value : direction) value = random.Normal();
      const double direction_norm = NormOf(direction);
      for (double& value : direction) value /= direction_norm;
      Mix mix;
      mix.is_needle.assign(count, 0);
      for (int found = 0; found < kNeedles;) {
        const auto at = static_cast<size_t>(random.Below(static_cast<int>(count)));
        if (mix.is_needle[at]) continue;
        mix.is_needle[at] = 1;
        ++found;
        std::vector<double> away(columns);
        for (size_t j = 0; j < columns; ++j) away[j] = keys[at * columns + j] - mean[j];
        const double norm = NormOf(away);
        for (size_t j = 0; j < columns && norm > kLeastUnit; ++j) needles[j] += away[j] / norm;
      }
      mix.g = project(direction);
      mix.n = project(needles);
      const double share = mix.NeedleShare(), scale = mix.Scale(share);
      if (!(scale > 0) || !std::isfinite(scale)) continue;
      Trial made;
      made.query.resize(columns);
      for (size_t j = 0; j < columns; ++j) made.query[j] = static_cast<float>(scale * (direction[j] + share * needles[j]));
      made.logits = CentredLogits(made.query, keys);
      made.needle_mass = mix.NeedleMass(share);
      trials_[block].push_back(std::move(made));
    }
  }
}

void SoftmaxProbe::Divergences(size_t block, std::span<const float> keys, std::vector<double>* divergences) const {
  for (const Trial& trial : trials_[block]) {
    const std::vector<float> logits = CentredLogits(trial.query, keys);
    // Rounding may leave a divergence of nothing just below zero.
    divergences->push_back(std::max(0.0, KlDivergence(trial.logits, LogSumExp(trial.logits), logits, LogSumExp(logits))));
  }
}

std::optional<MeanError> SoftmaxProbe::Mean(std::span<const double> divergences) const {
  if (divergences.empty()) return {};
  std::vector<size_t> run_lengths;
  for (const std::vector<Trial>& trials : trials_) {
    if (!trials.empty()) run_lengths.push_back(trials.size());
  }
  // One block a run, however long the run is.
  return MeanByBlocks(divergences, run_lengths, *std::max_element(run_lengths.begin(), run_lengths.end()));
}

}  // namespace swivel
