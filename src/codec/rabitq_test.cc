// rabitq: the search is the optimum, the distortion is the known one, the error bound holds as often as its theorem says.
#include "codec/rabitq.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "codec/test_rows.h"
#include "math/rotation.h"

namespace swivel {
namespace {

using test_rows::Dot;
using test_rows::Norm;

const Codec& Rabitq(int bits) { return **FindCodec("rabitq" + std::to_string(bits)); }

// The largest cosine over all codes, tried one by one.
double BestCosine(const std::vector<float>& row, int max_step) {
  const int width = static_cast<int>(row.size());
  std::vector<int> steps(width, 0);
  double best = 0.0;
  for (;;) {
    double product = 0.0, norm2 = 0.0;
    for (int i = 0; i < width; ++i) {
      product += (2 * steps[i] + 1) * std::fabs(static_cast<double>(row[i]));
      norm2 += (2 * steps[i] + 1) * (2 * steps[i] + 1);
    }
    best = std::max(best, product / std::sqrt(norm2));
    int at = 0;
    while (at < width && ++steps[at] > max_step) steps[at++] = 0;
    if (at == width) return best / Norm(row);
  }
}

void CheckOptimum(const std::vector<float>& row, int max_step) {
  const int width = static_cast<int>(row.size());
  std::vector<uint8_t> steps(width, 99);
  BestRabitqSteps(row.data(), width, max_step, steps.data());
  double product = 0.0, norm2 = 0.0;
  for (int i = 0; i < width; ++i) {
    ASSERT_LE(steps[i], max_step);
    product += (2 * steps[i] + 1) * std::fabs(static_cast<double>(row[i]));
    norm2 += (2 * steps[i] + 1) * (2 * steps[i] + 1);
  }
  ASSERT_NEAR(product / std::sqrt(norm2) / Norm(row), BestCosine(row, max_step), 1e-12);
}

TEST(Rabitq, SearchFindsTheOptimumOfAllCodes) {
  Random random(101);
  for (int max_step : {0, 1, 3, 7}) {
    for (int width = 1; width <= (max_step == 7 ? 5 : 7); ++width) {
      SCOPED_TRACE(std::to_string(max_step) + " steps, width " + std::to_string(width) + ", seed 101");
      for (int i = 0; i < 12; ++i) {
        std::vector<float> row = test_rows::GaussianRow(random, width);
        ASSERT_NO_FATAL_FAILURE(CheckOptimum(row, max_step));
        row[random.Below(width)] *= 40.0f;
        ASSERT_NO_FATAL_FAILURE(CheckOptimum(row, max_step));
        row[random.Below(width)] = 1e-30f;
        ASSERT_NO_FATAL_FAILURE(CheckOptimum(row, max_step));
      }
    }
  }
}

TEST(Rabitq, SearchSurvivesTiesZerosAndExtremes) {
  const std::vector<std::vector<float>> rows = {{1, 1, 1, 1, 1},        {1, 2, 3, 4, 5},    {0, 0, 0, 1},          {0, 3, 0, -3, 1.5f},
                                                {1e-45f, 1e-45f, 1, 1}, {1e-45f, 2e-45f},   {3e38f, 1e38f, 2e38f}, {7, 5, 3, 1, -1},
                                                {15, 13, 1, 1, 1},      {1, 1, 1, 1, 1e9f}, {-2, 2, -1, 1, 0.5f}};
  for (int max_step : {1, 3, 7}) {
    for (const std::vector<float>& row : rows) {
      SCOPED_TRACE(std::to_string(max_step) + " steps, first " + std::to_string(row[0]));
      ASSERT_NO_FATAL_FAILURE(CheckOptimum(row, max_step));
    }
  }
}

// At full width no code is tried that the search would miss: roundings of t |y| for many t are never better.
TEST(Rabitq, NoRoundingOfAMultipleIsBetter) {
  Random random(102);
  for (int bits : {2, 3, 4}) {
    for (int width : {32, 128, 576}) {
      SCOPED_TRACE("bits " + std::to_string(bits) + " width " + std::to_string(width) + ", seed 102");
      const std::vector<float> row = test_rows::GaussianRow(random, width);
      std::vector<uint8_t> steps(width);
      const int max_step = (1 << (bits - 1)) - 1;
      BestRabitqSteps(row.data(), width, max_step, steps.data());
      const auto cosine = [&](auto step_of) {
        double product = 0.0, norm2 = 0.0;
        for (int i = 0; i < width; ++i) {
          const double level = 2 * step_of(i) + 1;
          product += level * std::fabs(row[i]);
          norm2 += level * level;
        }
        return product / std::sqrt(norm2) / Norm(row);
      };
      const double found = cosine([&](int i) { return static_cast<int>(steps[i]); });
      for (double t = 0.0; t < 30.0; t += 0.01) {
        ASSERT_LE(cosine([&](int i) { return std::min(max_step, static_cast<int>(t * std::fabs(row[i]))); }), found + 1e-12) << t;
      }
    }
  }
}

// Full search and the unbiased scale: .1314, .0363, .0100 at width 128, and pi/2 - 1 less a little for one bit.
TEST(Rabitq, DistortionIsTheKnownOne) {
  const double expected[] = {.5690, .1314, .0363, .0100};
  for (int bits = 1; bits <= 4; ++bits) {
    EXPECT_EQ(Rabitq(bits).default_scale, ScaleMode::kUnbiased);
    Random random(103);
    double sum = 0.0;
    constexpr int kRows = 5000;
    for (int i = 0; i < kRows; ++i) {
      const std::vector<float> row = test_rows::UnitRow(random, 128);
      sum += test_rows::SquaredDistance(
          row, test_rows::RoundTrip(Rabitq(bits), row, i % 2 == 0 ? Side::kKey : Side::kValue, ScaleMode::kUnbiased));
    }
    EXPECT_NEAR(sum / kRows, expected[bits - 1], 0.015 * expected[bits - 1] + 5e-5) << bits << ", seed 103";
    RecordProperty("rabitq" + std::to_string(bits), std::to_string(sum / kRows));
  }
}

// One bit and the unbiased scale is DRIVE: ||y||^2 / ||y||_1 times the signs.
TEST(Rabitq, OneBitIsDrive) {
  Random random(104);
  for (int width : {32, 80, 128}) {
    const std::vector<float> row = test_rows::GaussianRow(random, width, 0.7);
    std::vector<float> y = row;
    Rotate(Frame::kSignedHadamard, y.data(), width);
    double norm1 = 0.0;
    for (float x : y) norm1 += std::fabs(x);
    std::vector<uint8_t> group(Rabitq(1).group_bytes(width));
    Rabitq(1).encode(row.data(), width, Side::kKey, ScaleMode::kUnbiased, group.data(), 9);
    std::vector<float> back(width);
    Rabitq(1).decode_in_frame(group.data(), width, Side::kKey, 9, back.data());
    for (int i = 0; i < width; ++i) ASSERT_NEAR(back[i] / (std::copysign(Dot(y, y) / norm1, y[i])), 1.0, 0x1p-9 + 1e-6) << i;
  }
}

// The bound against counted violations: never more often than the theorem allows, and no empty promise either: a Gaussian coordinate
// passes epsilon about that often.
TEST(RabitqErrorBound, HoldsAtItsProbability) {
  for (int bits = 1; bits <= 4; ++bits) {
    for (int width : {64, 128}) {
      for (ScaleMode mode : {ScaleMode::kUnbiased, ScaleMode::kLeastSquares}) {
        SCOPED_TRACE(test_rows::Describe(Rabitq(bits), width, Side::kKey, mode) + ", seed 105");
        Random random(105);
        constexpr double kEpsilons[] = {1.0, 1.9, 3.0};
        int violations[3] = {};
        int count = 0;
        for (int i = 0; i < 400; ++i) {
          const std::vector<float> row = test_rows::GaussianRow(random, width, 3.0);
          const std::vector<float> back = test_rows::RoundTrip(Rabitq(bits), row, Side::kKey, mode);
          for (int j = 0; j < 25; ++j, ++count) {
            const std::vector<float> q = test_rows::GaussianRow(random, width, 0.2);
            const double error = std::fabs(Dot(q, back) - Dot(q, row));
            for (int e = 0; e < 3; ++e) violations[e] += error > RabitqErrorBound(row.data(), back.data(), width, Norm(q), kEpsilons[e]);
          }
        }
        for (int e = 0; e < 3; ++e) {
          const double allowed = RabitqFailureProbability(kEpsilons[e]);
          EXPECT_NEAR(allowed, 2 * std::exp(-kEpsilons[e] * kEpsilons[e] / 2), 1e-15);
          const double rate = static_cast<double>(violations[e]) / count;
          EXPECT_LE(rate, allowed) << kEpsilons[e];
          if (mode != ScaleMode::kUnbiased) continue;
          // What a Gaussian gives: the spherical law is a little kinder, and the rounding of the scale is paid for in full.
          const double gaussian = std::erfc(kEpsilons[e] / std::sqrt(2.0));
          EXPECT_LE(rate, gaussian + 4 * std::sqrt(gaussian / count)) << kEpsilons[e];
          if (bits <= 2) {
            EXPECT_GE(rate, 0.7 * gaussian - 4 * std::sqrt(gaussian / count)) << kEpsilons[e];
          }
        }
      }
    }
  }
}

TEST(RabitqErrorBound, HasDefinedEdges) {
  const std::vector<float> zero(64, 0.0f), one(64, 1.0f);
  EXPECT_EQ(RabitqErrorBound(zero.data(), zero.data(), 64, 5.0, 1.9), 0.0);
  EXPECT_DOUBLE_EQ(RabitqErrorBound(zero.data(), one.data(), 64, 5.0, 1.9), 40.0);
  EXPECT_EQ(RabitqErrorBound(one.data(), one.data(), 64, 5.0, 1.9), 0.0);
}

}  // namespace
}  // namespace swivel
