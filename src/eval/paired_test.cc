#include "eval/paired.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace swivel {
namespace {

// Divergences as caches have them: a common difficulty of each token, correlated with its neighbours, times noise of the cache's own.
std::vector<float> Divergences(size_t count, double size, unsigned text_seed, unsigned own_seed) {
  std::mt19937 text(text_seed), own(own_seed);
  std::normal_distribution<double> normal;
  std::vector<float> values(count);
  double difficulty = 0;
  for (float& value : values) {
    difficulty = 0.8 * difficulty + normal(text);
    value = static_cast<float>(size * std::exp(difficulty + 0.7 * normal(own)));
  }
  return values;
}

const std::vector<size_t> kRuns = {1023, 1023, 1023};

TEST(ComparePaired, SeesASmallDifferenceThatUnpairedErrorsHide) {
  const std::vector<float> a = Divergences(3069, 0.010, 1, 2), b = Divergences(3069, 0.012, 1, 3);
  const PairedDifference worse = ComparePaired(b, a, kRuns);
  EXPECT_EQ(worse.verdict, Verdict::kWorse);
  EXPECT_GT(worse.low, 0);
  EXPECT_LT(worse.low, worse.difference);
  EXPECT_NEAR(worse.ratio, 1.2, 0.12);
  const PairedDifference better = ComparePaired(a, b, kRuns);
  EXPECT_EQ(better.verdict, Verdict::kBetter);
  EXPECT_DOUBLE_EQ(better.difference, -worse.difference);
  // On other tokens the same caches cannot be told apart.
  EXPECT_EQ(ComparePaired(Divergences(3069, 0.012, 9, 3), a, kRuns).verdict, Verdict::kNotDistinguishable);
}

TEST(ComparePaired, EqualOnesAreNotDistinguishable) {
  const std::vector<float> a = Divergences(3069, 0.01, 1, 2);
  EXPECT_EQ(ComparePaired(a, a, kRuns).verdict, Verdict::kNotDistinguishable);
  EXPECT_EQ(ComparePaired(a, a, kRuns).difference, 0);
}

TEST(ComparePaired, FalseVerdictsAreRare) {
  int verdicts = 0;
  constexpr int kTrials = 200;
  for (unsigned trial = 0; trial < kTrials; ++trial) {
    const std::vector<float> a = Divergences(1023, 0.01, trial, 1000 + trial), b = Divergences(1023, 0.01, trial, 5000 + trial);
    verdicts += ComparePaired(a, b, std::vector<size_t>{1023}).verdict != Verdict::kNotDistinguishable ? 1 : 0;
  }
  // 1 % is meant; sixteen blocks of a skewed quantity give a few.
  EXPECT_LE(verdicts, 10);
}

TEST(ComparePaired, ADifferenceBelowTheFloorDecidesNothing) {
  std::vector<float> a = Divergences(3069, 0.01, 1, 2), b = a;
  for (float& value : b) value += 1e-4f;
  EXPECT_EQ(ComparePaired(b, a, kRuns).verdict, Verdict::kWorse);
  EXPECT_EQ(ComparePaired(b, a, kRuns, 1e-3).verdict, Verdict::kNotDistinguishable);
}

TEST(ComparePaired, DamageIsWorseAndTooFewBlocksAreNotMeasured) {
  std::vector<float> a = Divergences(3069, 0.01, 1, 2), damaged = a;
  damaged[5] = std::nanf("");
  EXPECT_EQ(ComparePaired(damaged, a, kRuns).verdict, Verdict::kWorse);
  EXPECT_EQ(ComparePaired(a, damaged, kRuns).verdict, Verdict::kNotMeasured);
  EXPECT_EQ(ComparePaired(std::vector<float>(40, 1), std::vector<float>(40, 2), std::vector<size_t>{40}).verdict, Verdict::kNotMeasured);
  EXPECT_EQ(ComparePaired(a, std::vector<float>(9, 1), kRuns).verdict, Verdict::kNotMeasured);
  EXPECT_EQ(ComparePaired({}, {}, {}).verdict, Verdict::kNotMeasured);
}

}  // namespace
}  // namespace swivel
