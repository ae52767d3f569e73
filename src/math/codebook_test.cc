// The shipped tables against Lloyd's fixed point solved here in double precision.
#include "math/codebook.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>
#include <string>
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

// Probability of each level's cell.
std::vector<double> CellWeights(std::span<const float> levels) {
  std::vector<double> weights;
  double below = 0.0;
  for (size_t i = 0; i < levels.size(); ++i) {
    const double up_to = i + 1 == levels.size() ? 1.0 : Below(Threshold(levels[i], levels[i + 1]));
    weights.push_back(up_to - below);
    below = up_to;
  }
  return weights;
}

// Root of the mean squared deviation of step * integers from the levels.
double Deviation(std::span<const float> levels, const std::vector<int>& integers, double step) {
  const std::vector<double> weights = CellWeights(levels);
  double sum = 0.0;
  for (size_t i = 0; i < levels.size(); ++i) sum += weights[i] * std::pow(step * integers[i] - levels[i], 2);
  return std::sqrt(sum);
}

// The step that fits given integers best.
double BestStep(std::span<const float> levels, const std::vector<int>& integers) {
  const std::vector<double> weights = CellWeights(levels);
  double product = 0.0, squares = 0.0;
  for (size_t i = 0; i < levels.size(); ++i) {
    product += weights[i] * levels[i] * integers[i];
    squares += weights[i] * integers[i] * integers[i];
  }
  return product / squares;
}

// Searches all integer books within +-limit: rounding at every step on a fine grid visits each candidate that can be the best.
void CheckByteLevels(std::span<const float> levels, const ByteLevels& shipped, int limit, double documented) {
  const auto rounded_at = [&](double step) {
    std::vector<int> integers;
    for (float level : levels) integers.push_back(static_cast<int>(std::lround(level / step)));
    return integers;
  };
  const double largest = levels.back();
  double best = 1.0;
  for (double units = 4.0; units < limit + 0.5; units += 1e-3) {
    const std::vector<int> integers = rounded_at(largest / units);
    if (integers.back() > limit) continue;
    best = std::min(best, Deviation(levels, integers, BestStep(levels, integers)));
  }
  const std::vector<int> integers(shipped.level.begin(), shipped.level.begin() + static_cast<int>(levels.size()));
  EXPECT_NEAR(Deviation(levels, integers, shipped.step), best, 1e-6) << "not the best integer book";
  EXPECT_NEAR(shipped.step, BestStep(levels, integers), 1e-8);
  EXPECT_NEAR(best, documented, 0.05 * documented);
  for (size_t i = 0; i < levels.size(); ++i) {
    EXPECT_EQ(integers[i], -integers[levels.size() - 1 - i]);
    EXPECT_LE(std::abs(integers[i]), limit);
    EXPECT_TRUE(i == 0 || integers[i] > integers[i - 1]) << i;
  }
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

TEST(Codebook, OneBitIsLloydMax) { CheckTable(kLloydMax1, 0.363380); }
TEST(Codebook, TwoBitsAreLloydMax) { CheckTable(kLloydMax2, 0.117482); }
TEST(Codebook, ThreeBitsAreLloydMax) { CheckTable(kLloydMax3, 0.034548); }
TEST(Codebook, FourBitsAreLloydMax) { CheckTable(kLloydMax4, 0.009501); }

TEST(Codebook, FiveLevelsAreLloydMax) { CheckTable(kLloydMaxN5, 0.079941); }
TEST(Codebook, ElevenLevelsAreLloydMax) { CheckTable(kLloydMaxN11, 0.019220); }

// The levels of merged cells are the means over them; the distortion follows from the same integrals.
void CheckCut(std::span<const float> parent, std::span<const float> cut, double expected, double native, double allowed) {
  const std::vector<double> levels = SolveLloydMax(static_cast<int>(parent.size()));
  const size_t step = parent.size() / cut.size();
  double distortion = 1.0;
  for (size_t i = 0; i < cut.size(); ++i) {
    const double a = i == 0 ? -INFINITY : 0.5 * (levels[step * i - 1] + levels[step * i]);
    const double b = i + 1 == cut.size() ? INFINITY : 0.5 * (levels[step * i + step - 1] + levels[step * i + step]);
    const double weight = Below(b) - Below(a);
    const double mean = (Density(a) - Density(b)) / weight;
    EXPECT_NEAR(cut[i], mean, 1e-5) << i;
    distortion -= weight * mean * mean;
  }
  EXPECT_NEAR(distortion, expected, 1e-6);
  EXPECT_LT(distortion / native, 1.0 + allowed);
  EXPECT_GT(distortion / native, 1.0);
}

TEST(Codebook, CutCodesLoseLittle) {
  CheckCut(kLloydMax4, kLloydMax4CutTo3, 0.034852, 0.034548, 0.015);
  CheckCut(kLloydMax3, kLloydMax3CutTo2, 0.118449, 0.117482, 0.015);
  CheckCut(kLloydMax4, kLloydMax4CutTo2, 0.120294, 0.117482, 0.03);
}

TEST(ByteLevels, AreTheBestIntegerBooks) {
  CheckByteLevels(kLloydMax2, kLloydMax2Books.wide, 127, 2.6e-4);
  CheckByteLevels(kLloydMax3, kLloydMax3Books.wide, 127, 1.1e-3);
  CheckByteLevels(kLloydMax4, kLloydMax4Books.wide, 127, 3.2e-3);
  CheckByteLevels(kLloydMax2, kLloydMax2Books.narrow, 64, 2.6e-4);
  CheckByteLevels(kLloydMax3, kLloydMax3Books.narrow, 64, 4.5e-3);
  CheckByteLevels(kLloydMax4, kLloydMax4Books.narrow, 64, 7.2e-3);
}

}  // namespace
}  // namespace swivel
