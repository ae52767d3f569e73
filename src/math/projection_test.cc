// The projections of QJL: bits that are part of formats, and the properties that their estimators need.
#include "math/projection.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/test_moments.h"

namespace swivel {
namespace {

constexpr Projection kKinds[] = {Projection::kGaussian, Projection::kOrthogonal};

// A digest of the bits of S.
uint64_t Digest(Projection projection, int width) {
  const ProjectionMatrix s = GetProjection(projection, width);
  uint64_t digest = 0;
  for (int i = 0; i < width; ++i) {
    for (int j = 0; j < width; ++j) digest = SplitMix64(digest ^ std::bit_cast<uint32_t>(s.row(i)[j]));
  }
  return digest;
}

double Product(const float* a, const float* b, int width) {
  double sum = 0.0;
  for (int i = 0; i < width; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

TEST(ReproducibleNormal, EqualsThePolarMethodWithTheLibrarysLogarithm) {
  for (uint64_t index = 0; index < 20000; ++index) {
    double expected = 0.0;
    for (uint64_t attempt = 0;; ++attempt) {
      const uint64_t bits = SplitMix64((uint64_t{5} << 32) + (index << 6) + attempt);
      const double u = std::ldexp(static_cast<double>(bits >> 32) + 0.5, -31) - 1.0;
      const double v = std::ldexp(static_cast<double>(bits & 0xffffffffu) + 0.5, -31) - 1.0;
      if (u * u + v * v >= 1.0) continue;
      expected = u * std::sqrt(-2.0 * std::log(u * u + v * v) / (u * u + v * v));
      break;
    }
    ASSERT_NEAR(ReproducibleNormal(5, index), expected, 4e-15 * std::fabs(expected) + 1e-18) << index;
  }
}

TEST(ReproducibleNormal, HasTheMomentsOfAGaussian) {
  ExpectGaussianMoments([](int i) { return ReproducibleNormal(6, static_cast<uint64_t>(i)); });
}

// S is part of the format of every row that was ever written with it.
TEST(Projection, BitsArePinned) {
  EXPECT_EQ(Digest(Projection::kGaussian, 32), 0x975f2c3b07b3dccbull);
  EXPECT_EQ(Digest(Projection::kGaussian, 128), 0x4c4c0df2ac8a6b24ull);
  EXPECT_EQ(Digest(Projection::kGaussian, 576), 0x91928db26194f43bull);
  EXPECT_EQ(Digest(Projection::kOrthogonal, 32), 0xdfabc40aee5d23d9ull);
  EXPECT_EQ(Digest(Projection::kOrthogonal, 80), 0xd74cf746fabdff32ull);
  EXPECT_EQ(Digest(Projection::kOrthogonal, 128), 0x88b20debdd94c92bull);
  EXPECT_EQ(Digest(Projection::kOrthogonal, 576), 0x2e8c01363d52b97cull);
}

TEST(Projection, GaussianEntriesAreStandardNormalAndSharedByWidths) {
  const ProjectionMatrix large = GetProjection(Projection::kGaussian, 576);
  const ProjectionMatrix small = GetProjection(Projection::kGaussian, 80);
  double squares = 0.0;
  for (int i = 0; i < 576; ++i) squares += Product(large.row(i), large.row(i), 576);
  EXPECT_NEAR(squares / (576 * 576), 1.0, 4 * std::sqrt(2.0) / 576);
  for (int i = 0; i < 80; ++i) {
    for (int j = 0; j < 80; ++j) ASSERT_EQ(small.row(i)[j], large.row(i)[j]);
  }
}

TEST(Projection, OrthogonalRowsAreOrthonormalAtEveryWidth) {
  for (int width = 32; width <= kMaxProjectionWidth; width += width < 256 ? 16 : 160) {
    const ProjectionMatrix s = GetProjection(Projection::kOrthogonal, width);
    EXPECT_EQ(s.width(), width);
    for (int i = 0; i < width; ++i) {
      for (int j = 0; j <= i; ++j)
        ASSERT_NEAR(Product(s.row(i), s.row(j), width), i == j ? 1.0 : 0.0, 2e-7) << width << ": " << i << ", " << j;
    }
  }
}

// Gram-Schmidt keeps the flag of subspaces: row i of the Gaussian matrix lies in the span of the first i + 1 orthonormal rows, on the
// positive side of the last. A matrix that is orthogonal but of another origin fails this.
TEST(Projection, OrthogonalRowsComeFromTheGaussianOnes) {
  for (int width : {32, 112}) {
    const ProjectionMatrix gaussian = GetProjection(Projection::kGaussian, width);
    const ProjectionMatrix orthogonal = GetProjection(Projection::kOrthogonal, width);
    for (int i = 0; i < width; ++i) {
      const double norm = std::sqrt(Product(gaussian.row(i), gaussian.row(i), width));
      ASSERT_GT(Product(gaussian.row(i), orthogonal.row(i), width), 0.0) << i;
      for (int j = i + 1; j < width; ++j)
        ASSERT_NEAR(Product(gaussian.row(i), orthogonal.row(j), width), 0.0, 3e-7 * norm) << i << ", " << j;
    }
  }
}

TEST(Projection, MeanAbsoluteProjectionIsTheGammaQuotient) {
  for (int width = 32; width <= kMaxProjectionWidth; width += 16) {
    EXPECT_DOUBLE_EQ(MeanAbsProjection(Projection::kGaussian, width), std::sqrt(2.0 / M_PI));
    const double exact = std::exp(std::lgamma(width / 2.0) - std::lgamma((width + 1) / 2.0)) / std::sqrt(M_PI);
    EXPECT_NEAR(MeanAbsProjection(Projection::kOrthogonal, width) / exact, 1.0, 1e-12) << width;
  }
}

// First use from many threads at once, of widths that no other test asks for.
TEST(Projection, FirstUseIsThreadSafe) {
  std::vector<std::thread> team;
  std::vector<uint64_t> digests(8);
  for (int t = 0; t < 8; ++t) team.emplace_back([&, t] { digests[t] = Digest(kKinds[t % 2], 272 + 16 * (t / 4)); });
  for (std::thread& thread : team) thread.join();
  for (int t = 0; t < 8; ++t) EXPECT_EQ(digests[t], Digest(kKinds[t % 2], 272 + 16 * (t / 4))) << t;
}

}  // namespace
}  // namespace swivel
