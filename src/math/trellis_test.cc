// The trellis search against exhaustive and double-precision searches, and the shipped tables against what trained them: levels are the
// means of what the search assigns to them.
#include "math/trellis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"

namespace swivel {
namespace {

struct Path {
  std::vector<uint8_t> u, m;
  explicit Path(int length) : u(length), m(length) {}
  int Level(int n) const {
    const auto bit = [&](int k) { return k < 0 ? 0 : u[k]; };
    return 4 * m[n] + TrellisSubset(u[n], bit(n - 1), bit(n - 2), bit(n - 3));
  }
  double Cost(const TrellisBook& book, const std::vector<float>& t) const {
    double cost = 0.0;
    for (size_t n = 0; n < t.size(); ++n) cost += std::pow(static_cast<double>(t[n]) - book.level[Level(static_cast<int>(n))], 2);
    return cost;
  }
};

Path Search(const TrellisBook& book, const std::vector<float>& t) {
  Path path(static_cast<int>(t.size()));
  TrellisSearch(book, t.data(), static_cast<int>(t.size()), path.u.data(), path.m.data());
  return path;
}

// The least squared error of a subset, over all its levels.
double SubsetError(const TrellisBook& book, float t, int subset) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = subset; i < 2 << book.bits; i += 4) least = std::min(least, std::pow(static_cast<double>(t) - book.level[i], 2));
  return least;
}

// Every sequence of path bits.
double LeastCostOfAll(const TrellisBook& book, const std::vector<float>& t) {
  const int length = static_cast<int>(t.size());
  double least = std::numeric_limits<double>::infinity();
  for (int bits = 0; bits < 1 << length; ++bits) {
    const auto bit = [&](int k) { return k < 0 ? 0 : bits >> k & 1; };
    double cost = 0.0;
    for (int n = 0; n < length; ++n) cost += SubsetError(book, t[n], TrellisSubset(bit(n), bit(n - 1), bit(n - 2), bit(n - 3)));
    least = std::min(least, cost);
  }
  return least;
}

// Viterbi in one direction, in double.
double LeastCost(const TrellisBook& book, const std::vector<float>& t) {
  std::vector<double> cost(8, std::numeric_limits<double>::infinity());
  cost[0] = 0.0;
  for (float x : t) {
    std::vector<double> next(8, std::numeric_limits<double>::infinity());
    for (int s = 0; s < 8; ++s) {
      for (int u : {0, 1}) {
        double& at = next[(2 * s + u) & 7];
        at = std::min(at, cost[s] + SubsetError(book, x, TrellisSubset(u, s & 1, s >> 1 & 1, s >> 2)));
      }
    }
    cost = next;
  }
  return *std::min_element(cost.begin(), cost.end());
}

std::vector<float> GaussianRow(Random& random, int length, bool normalise) {
  std::vector<float> t(length);
  double norm2 = 0.0;
  for (float& x : t) {
    x = random.Normal();
    norm2 += static_cast<double>(x) * x;
  }
  if (normalise) {
    for (float& x : t) x = static_cast<float>(x * std::sqrt(length / norm2));
  }
  return t;
}

TEST(Trellis, SearchFindsTheBestOfAllPaths) {
  Random random(81);
  for (int bits = 1; bits <= kMaxTrellisBits; ++bits) {
    const TrellisBook& book = GetTrellisBook(bits);
    for (int i = 0; i < 40; ++i) {
      const std::vector<float> t = GaussianRow(random, i % 2 == 0 ? 8 : 10, false);
      const double cost = Search(book, t).Cost(book, t);
      ASSERT_NEAR(cost, LeastCostOfAll(book, t), 1e-5 * (1e-3 + cost)) << bits << " bits, row " << i << ", seed 81";
    }
  }
}

TEST(Trellis, SearchEqualsTheOneWaySearchOnLongRows) {
  Random random(82);
  for (int bits = 1; bits <= kMaxTrellisBits; ++bits) {
    const TrellisBook& book = GetTrellisBook(bits);
    for (int length : {32, 48, 128, 576}) {
      for (int i = 0; i < 10; ++i) {
        const std::vector<float> t = GaussianRow(random, length, false);
        const double cost = Search(book, t).Cost(book, t);
        ASSERT_NEAR(cost, LeastCost(book, t), 1e-5 * (1e-3 + cost)) << bits << " bits, length " << length << ", seed 82";
      }
    }
  }
}

// One magnitude everywhere ties many paths: whatever is chosen, it is a best one.
TEST(Trellis, TiesAreBroken) {
  for (int bits = 1; bits <= kMaxTrellisBits; ++bits) {
    const TrellisBook& book = GetTrellisBook(bits);
    for (float size : {0.0f, 1.0f, -24.0f, book.level[1]}) {
      const std::vector<float> t(64, size);
      const double cost = Search(book, t).Cost(book, t);
      EXPECT_NEAR(cost, LeastCost(book, t), 1e-5 * (1e-3 + cost)) << bits << " bits, " << size;
    }
  }
}

TEST(TrellisBook, LevelsAreWholeNumbersOfSteps) {
  for (int bits = 1; bits <= kMaxTrellisBits; ++bits) {
    SCOPED_TRACE(std::to_string(bits) + " bits");
    const TrellisBook& book = GetTrellisBook(bits);
    ASSERT_EQ(book.bits, bits);
    const int count = 2 << bits;
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(book.level[i], book.wide_step * static_cast<float>(book.wide[i])) << i;
      EXPECT_EQ(book.wide[i], -book.wide[count - 1 - i]) << i;
      EXPECT_EQ(book.narrow[i], -book.narrow[count - 1 - i]) << i;
      EXPECT_LE(std::abs(book.wide[i]), 127) << i;
      EXPECT_LE(std::abs(book.narrow[i]), 64) << i;
      // The narrow book is the levels rounded to its own step.
      EXPECT_NEAR(book.narrow_step * book.narrow[i], book.level[i], 0.501 * book.narrow_step) << i;
      if (i > 0) {
        EXPECT_GT(book.wide[i], book.wide[i - 1]) << i;
      }
    }
  }
}

// Distortion of Gaussian rows of 128 scaled to norm sqrt(128); 2 to 4 bits: independently simulated values for trained levels that are
// not rounded (.0859, .0234, .00635).
TEST(TrellisBook, LevelsAreTheMeansOfTheirCells) {
  constexpr double kExpected[] = {.3055, .0859, .0234, .00635, 0.00172, 0.000471};
  for (int bits = 1; bits <= kMaxTrellisBits; ++bits) {
    SCOPED_TRACE(std::to_string(bits) + " bits, seed 83");
    const TrellisBook& book = GetTrellisBook(bits);
    const int count = 2 << bits;
    constexpr int kRows = 2000, kLength = 128;
    Random random(83);
    std::vector<double> sum(count, 0.0), number(count, 0.0);
    double error = 0.0, product = 0.0, squares = 0.0;
    for (int row = 0; row < kRows; ++row) {
      const std::vector<float> t = GaussianRow(random, kLength, true);
      const Path path = Search(book, t);
      error += path.Cost(book, t);
      for (int n = 0; n < kLength; ++n) {
        const int i = path.Level(n);
        sum[i] += t[n];
        number[i] += 1.0;
        product += static_cast<double>(t[n]) * book.level[i];
        squares += static_cast<double>(book.level[i]) * book.level[i];
      }
    }
    const double distortion = error / (kRows * kLength);
    RecordProperty("bits" + std::to_string(bits), std::to_string(distortion));
    EXPECT_NEAR(distortion / kExpected[bits - 1], 1.0, 0.015);
    // No other step is better: d/ds of ||t - s level||^2 is 0 near s = 1.
    EXPECT_NEAR(product / squares, 1.0, 0.06 * distortion + 2e-3);
    // Moving every level to the mean of its cell would gain next to nothing: the shift is what rounding to whole steps and the noise of
    // this sample (its standard error) leave.
    double gain = 0.0, noise = 0.0;
    for (int i = count / 2; i < count; ++i) {
      const double cell = number[i] + number[count - 1 - i];
      ASSERT_GT(cell, 0.0) << i;
      gain += std::pow((sum[i] - sum[count - 1 - i]) / cell - book.level[i], 2) * cell;
      noise += distortion;
    }
    gain /= kRows * kLength;
    noise /= kRows * kLength;
    EXPECT_LT(gain, 0.006 * distortion + 3 * noise + book.wide_step * book.wide_step / 12);
  }
}

}  // namespace
}  // namespace swivel
