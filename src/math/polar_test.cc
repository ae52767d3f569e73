// The angle books against their definition: the k-means fixed point solved here, and the C library's trigonometry.
#include "math/polar.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace swivel {
namespace {

// Lloyd's fixed point for four centroids of the density sin^power(2 psi) on [0, pi/2].
std::array<double, 4> SolveBook(int power) {
  constexpr int kCells = 100000;
  constexpr double kStep = M_PI / 2 / kCells;
  std::vector<double> mass = {0.0}, moment = {0.0};
  for (int i = 0; i < kCells; ++i) {
    const double psi = (i + 0.5) * kStep;
    const double density = std::pow(std::sin(2 * psi), power);
    mass.push_back(mass.back() + density * kStep);
    moment.push_back(moment.back() + density * psi * kStep);
  }
  const auto at = [&](const std::vector<double>& table, double psi) {
    const int cell = std::min(static_cast<int>(psi / kStep), kCells - 1);
    return table[cell] + (table[cell + 1] - table[cell]) * (psi / kStep - cell);
  };
  std::array<double, 4> centroids = {0.3, 0.6, 0.9, 1.2};
  for (int iteration = 0; iteration < 1000; ++iteration) {
    const double edges[] = {0.0, 0.5 * (centroids[0] + centroids[1]), 0.5 * (centroids[1] + centroids[2]),
                            0.5 * (centroids[2] + centroids[3]), M_PI / 2};
    for (int i = 0; i < 4; ++i) {
      centroids[i] = (at(moment, edges[i + 1]) - at(moment, edges[i])) / (at(mass, edges[i + 1]) - at(mass, edges[i]));
    }
  }
  return centroids;
}

TEST(Polar, BooksAreTheKMeansOptimumOfTheAngleLaws) {
  for (int level = 2; level <= kPolarLevels; ++level) {
    const PolarBook& book = kPolarBooks[level - 2];
    const std::array<double, 4> centroids = SolveBook((1 << (level - 1)) - 1);
    for (int i = 0; i < 4; ++i) {
      EXPECT_NEAR(book.cosines[i], std::cos(centroids[i]), 1e-6) << level << " " << i;
      EXPECT_NEAR(book.cosines[3 - i], std::sin(centroids[i]), 1e-6) << level << " " << i;
    }
    EXPECT_NEAR(book.low_tangent, std::tan(0.5 * (centroids[0] + centroids[1])), 1e-6);
    EXPECT_NEAR(book.high_tangent, std::tan(0.5 * (centroids[2] + centroids[3])), 3e-6);
  }
}

TEST(Polar, SectorsAreSixteenthsOfTheCircle) {
  for (int i = 0; i < 3200; ++i) {
    const double angle = (i + 0.5) * M_PI / 1600;
    const float radius = i % 3 == 0 ? 1e-20f : 3.0f;
    ASSERT_EQ(SectorOf(static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))), i / 200) << i;
  }
  for (int sector = 0; sector < 16; ++sector) {
    float x, y;
    SectorDirection(sector, &x, &y);
    EXPECT_NEAR(x, std::cos((sector + 0.5) * M_PI / 8), 1e-7);
    EXPECT_NEAR(y, std::sin((sector + 0.5) * M_PI / 8), 1e-7);
  }
  // The axes belong to the sector that starts there.
  EXPECT_EQ(SectorOf(1, 0), 0);
  EXPECT_EQ(SectorOf(0, 1), 4);
  EXPECT_EQ(SectorOf(-1, 0), 8);
  EXPECT_EQ(SectorOf(0, -1), 12);
  EXPECT_EQ(SectorOf(0, 0), 3);
}

TEST(Polar, CodesAreTheNearestCentroids) {
  for (const PolarBook& book : kPolarBooks) {
    for (int i = 0; i < 2000; ++i) {
      const double psi = (i + 0.5) * M_PI / 2 / 2000;
      int nearest = 0;
      for (int code = 1; code < 4; ++code) {
        if (std::fabs(psi - std::acos(book.cosines[code])) < std::fabs(psi - std::acos(book.cosines[nearest]))) nearest = code;
      }
      ASSERT_EQ(PolarCode(book, static_cast<float>(std::cos(psi)), static_cast<float>(std::sin(psi))), nearest) << psi;
    }
  }
}

// The law that the books are made for, from Gaussian numbers: mean pi/4 and the standard deviations .3418, .2476, .1763.
TEST(Polar, AnglesOfGaussianRowsFollowTheLaw) {
  Random random(61);
  constexpr int kBlocks = 40000;
  double sum[3] = {}, squares[3] = {};
  for (int block = 0; block < kBlocks; ++block) {
    double radius[8];
    for (double& r : radius) r = std::hypot(random.Normal(), random.Normal());
    for (int level = 0, pairs = 4; level < 3; ++level, pairs /= 2) {
      for (int j = 0; j < pairs; ++j) {
        const double psi = std::atan2(radius[2 * j + 1], radius[2 * j]) - M_PI / 4;
        if (j == 0) sum[level] += psi, squares[level] += psi * psi;
        radius[j] = std::hypot(radius[2 * j], radius[2 * j + 1]);
      }
    }
  }
  const double expected[] = {.3418, .2476, .1763};
  for (int level = 0; level < 3; ++level) {
    EXPECT_NEAR(sum[level] / kBlocks, 0.0, 4 * expected[level] / std::sqrt(kBlocks)) << "seed 61";
    EXPECT_NEAR(std::sqrt(squares[level] / kBlocks), expected[level], 0.015 * expected[level]) << "seed 61";
  }
}

}  // namespace
}  // namespace swivel
