#include "eval/paired.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "eval/metrics.h"

namespace swivel {
namespace {

constexpr int kResamples = 4000;
constexpr double kTail = 0.005;

// 99.5 % quantile of Student's t with so many degrees of freedom over that of the normal distribution: Abramowitz and Stegun 26.7.5, within
// .2 % from 7 on. Percentiles of a bootstrap are those of a normal distribution where the mean has a t distribution.
double StudentOverNormal(double freedom) {
  constexpr double z = 2.575829, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  const double f = freedom;
  const double t = z + (z3 + z) / (4 * f) + (5 * z5 + 16 * z3 + 3 * z) / (96 * f * f) + (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * f * f * f);
  return t / z;
}

bool AllFinite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

}  // namespace

std::string VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBetter:
      return "better";
    case Verdict::kWorse:
      return "worse";
    case Verdict::kNotDistinguishable:
      return "not distinguishable";
    case Verdict::kNotMeasured:
      break;
  }
  return "not measured";
}

PairedDifference ComparePaired(std::span<const float> a, std::span<const float> b, std::span<const size_t> run_lengths, double floor) {
  PairedDifference result;
  if (a.empty() || a.size() != b.size() || !AllFinite(b)) return result;
  result.positions = a.size();
  if (!AllFinite(a)) {
    result.verdict = Verdict::kWorse;
    result.difference = result.low = result.high = std::nan("");
    return result;
  }
  const auto blocks = Blocks(run_lengths, BlockLength(a.size()));
  result.blocks = blocks.size();
  double sum_a = 0, sum_b = 0;
  std::vector<double> sums;  // of the difference, a block each
  for (const auto& [from, to] : blocks) {
    double sum = 0;
    for (size_t i = from; i < to; ++i) {
      sum += double{a[i]} - double{b[i]};
      sum_a += a[i];
      sum_b += b[i];
    }
    sums.push_back(sum);
  }
  const double count = static_cast<double>(a.size());
  result.difference = (sum_a - sum_b) / count;
  if (sum_b > 0 && sum_a > 0) result.ratio = sum_a / sum_b;
  if (blocks.size() < kLeastBlocks) return result;

  Random random(1);
  const int num_blocks = static_cast<int>(blocks.size());
  std::vector<double> means(kResamples);
  for (double& mean : means) {
    double sum = 0;
    size_t positions = 0;
    for (int i = 0; i < num_blocks; ++i) {
      const size_t block = static_cast<size_t>(random.Below(num_blocks));
      sum += sums[block];
      positions += blocks[block].second - blocks[block].first;
    }
    mean = sum / static_cast<double>(positions);
  }
  std::sort(means.begin(), means.end());
  // Resampled means spread by sqrt((M-1)/M) too little.
  const double widen = std::sqrt(static_cast<double>(num_blocks) / (num_blocks - 1)) * StudentOverNormal(num_blocks - 1);
  result.low = result.difference + widen * (Percentile(means, kTail) - result.difference);
  result.high = result.difference + widen * (Percentile(means, 1 - kTail) - result.difference);
  const double least = std::max(floor, 0.0);
  result.verdict = result.low > least ? Verdict::kWorse : result.high < -least ? Verdict::kBetter : Verdict::kNotDistinguishable;
  return result;
}

}  // namespace swivel
