// The shipped tables against Lloyd's fixed point solved here in double precision.
#include "math/codebook.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "base/random.h"

namespace swivel {
namespace {

double Density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2.0 * M_PI); }
double Below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// Lloyd's iteration for N(0,1): thresholds are midpoints, levels the means of their cells (phi(a) - phi(b)) / (Phi(b) - Phi(a)).
std::vector<double> SolveLloydMax(int count) {
  std::vector<double> levels(count);
  for (int i = 0; i < count; ++i) levels[i] = -3.0 + 6.0 * (i + 0.5) / count;
  for (int iteration = 0; iteration < 20000; ++iteration) {
    std::vector<double> next(count);
    for (int i = 0; i < count; ++i) {
      const double a = i == 0 ? -INFINITY : 0.5 * (levels[i - 1] + levels[i]);
      const double b = i + 1 == count ? INFINITY : 0.5 * (levels[i] + levels[i + 1]);
      next[i] = ((i == 0 ? 0.0 : Density(a)) - (i + 1 == count ? 0.0 : Density(b))) / (Below(b) - Below(a));
    }
    levels = next;
  }
  return levels;
}

// 1 - sum of cell probability * level^2, true at the fixed point.
double DistortionOf(const std::vector<double>& levels) {
  double distortion = 1.0;
  for (size_t i = 0; i < levels.size(); ++i) {
    const double a = i == 0 ? 0.0 : Below(0.5 * (levels[i - 1] + levels[i]));
    const double b = i + 1 == levels.size() ? 1.0 : Below(0.5 * (levels[i] + levels[i + 1]));
    distortion -= (b - a) * levels[i] * levels[i];
  }
  return distortion;
}

double MeasuredDistortion(std::span<const float> levels, uint64_t seed) {
  Random random(seed);
  constexpr int kDraws = 1000000;
  double sum = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    const float x = random.Normal();
    int code = 0;
    for (size_t j = 0; j + 1 < levels.size(); ++j) code += x >= Threshold(levels[j], levels[j + 1]);
    sum += (x - levels[code]) * (x - levels[code]);
  }
  return sum / kDraws;
}

void CheckTable(std::span<const float> table, double expected) {
  SCOPED_TRACE(std::to_string(table.size()) + " levels, seed 21");
  const std::vector<double> levels = SolveLloydMax(static_cast<int>(table.size()));
  for (size_t i = 0; i < table.size(); ++i) {
    EXPECT_NEAR(table[i], levels[i], 1e-5) << i;
    EXPECT_EQ(table[i], -table[table.size() - 1 - i]) << i;
  }
  EXPECT_NEAR(DistortionOf(levels), expected, 1e-6);
  EXPECT_NEAR(MeasuredDistortion(table, 21), expected, 0.02 * expected);
}

TEST(Codebook, TwoBitsAreLloydMax) { CheckTable(kLloydMax2, 0.117482); }
TEST(Codebook, ThreeBitsAreLloydMax) { CheckTable(kLloydMax3, 0.034548); }
TEST(Codebook, FourBitsAreLloydMax) { CheckTable(kLloydMax4, 0.009501); }

}  // namespace
}  // namespace swivel
