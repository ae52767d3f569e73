// Rotations against dense double-precision matrices built from their definition in rotation.h.
#include "math/rotation.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "math/test_matrices.h"

namespace swivel {
namespace {

using test_matrices::Matrix;
using test_matrices::Norm;
using test_matrices::RandomRow;

constexpr int kWidths[] = {32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 320, 512, 576};
constexpr Frame kFrames[] = {Frame::kNone, Frame::kHadamard, Frame::kHadamard64, Frame::kSignedHadamard};

// kHadamard64 exists for multiples of 64 only.
bool Serves(Frame frame, int width) { return frame != Frame::kHadamard64 || width % 64 == 0; }

int LargestPowerOfTwo(int width) {
  int n = 1;
  while (width % (2 * n) == 0) n *= 2;
  return n;
}

Matrix Reference(Frame frame, int width) {
  Matrix r(width, std::vector<double>(width, 0.0));
  if (frame == Frame::kNone) {
    for (int i = 0; i < width; ++i) r[i][i] = 1.0;
    return r;
  }
  const int n = frame == Frame::kHadamard64 ? 64 : LargestPowerOfTwo(width);
  const int m = width / n;
  const bool is_signed = frame == Frame::kSignedHadamard;
  for (int i = 0; i < width; ++i) {
    for (int j = 0; j < width; ++j) {
      const double hadamard = (std::popcount(static_cast<unsigned>(i % n & j % n)) % 2 == 0 ? 1.0 : -1.0) / std::sqrt(n);
      double across = i / n == j / n ? 1.0 : 0.0;
      if (is_signed && m > 1) across -= 2.0 / m;
      const bool negative = is_signed && (SplitMix64(0x5377697665ull + static_cast<uint64_t>(j)) >> 63) != 0;
      r[i][j] = across * hadamard * (negative ? -1.0 : 1.0);
    }
  }
  return r;
}

std::string Describe(Frame frame, int width, uint64_t seed) {
  return "frame " + std::to_string(static_cast<int>(frame)) + " width " + std::to_string(width) + " seed " + std::to_string(seed);
}

template <class Body>
void ForEachFrameAndWidth(Body body) {
  uint64_t seed = 100;
  for (Frame frame : kFrames) {
    for (int width : kWidths) {
      if (!Serves(frame, width)) continue;
      SCOPED_TRACE(Describe(frame, width, ++seed));
      body(frame, width, RandomRow(width, seed));
    }
  }
}

TEST(Rotation, KeepsTheNorm) {
  ForEachFrameAndWidth([](Frame frame, int width, const std::vector<float>& x) {
    std::vector<float> y = x;
    Rotate(frame, y.data(), width);
    EXPECT_NEAR(Norm(y) / Norm(x), 1.0, 1e-6);
  });
}

TEST(Rotation, InverseUndoesIt) {
  ForEachFrameAndWidth([](Frame frame, int width, const std::vector<float>& x) {
    std::vector<float> forward = x, backward = x;
    Rotate(frame, forward.data(), width);
    InverseRotate(frame, forward.data(), width);
    InverseRotate(frame, backward.data(), width);
    Rotate(frame, backward.data(), width);
    for (int i = 0; i < width; ++i) {
      ASSERT_NEAR(forward[i], x[i], 1e-6 * Norm(x)) << i;
      ASSERT_NEAR(backward[i], x[i], 1e-6 * Norm(x)) << i;
    }
  });
}

TEST(Rotation, EqualsTheDenseMatrix) {
  ForEachFrameAndWidth([](Frame frame, int width, const std::vector<float>& x) {
    // log2(n) + m additions of values up to the norm, half an ulp each.
    test_matrices::ExpectRotatesAs(Reference(frame, width), frame, x, 16 * 6e-8 * Norm(x));
  });
}

TEST(Rotation, BlockIsThePowerOfTwoThatDividesTheWidth) {
  for (int width : kWidths) {
    EXPECT_EQ(HadamardBlock(Frame::kSignedHadamard, width), LargestPowerOfTwo(width));
    EXPECT_EQ(HadamardBlock(Frame::kHadamard, width), LargestPowerOfTwo(width));
    EXPECT_EQ(HadamardBlock(Frame::kHadamard64, width), 64);
  }
}

TEST(Rotation, SignsArePinned) {
  // The signs are part of the format: the first 64 as a bit mask, bit i set where the sign is -1, and the number of them.
  uint64_t first = 0;
  int negative = 0;
  for (int i = 0; i < kMaxRotationWidth; ++i) {
    ASSERT_EQ(std::fabs(kRotationSigns[i]), 1.0f) << i;
    if (i < 64 && kRotationSigns[i] < 0.0f) first |= uint64_t{1} << i;
    negative += kRotationSigns[i] < 0.0f;
  }
  EXPECT_EQ(first, 0x5a073df1f68d1e96ull) << std::hex << first;
  EXPECT_EQ(negative, 304);
}

// A single channel must reach every coordinate, also where the width is 5 * 16: a block-diagonal rotation would leave most at zero.
TEST(Rotation, SpikeSpreadsOverAllCoordinates) {
  for (int width : kWidths) {
    const int m = width / LargestPowerOfTwo(width);
    const double n = static_cast<double>(width) / m;
    for (int at : {0, 17, width / 2, width - 1}) {
      SCOPED_TRACE(Describe(Frame::kSignedHadamard, width, at));
      std::vector<float> x(width, 0.0f);
      x[at] = 1.0f;
      Rotate(Frame::kSignedHadamard, x.data(), width);
      for (int i = 0; i < width; ++i) {
        const bool own = i / static_cast<int>(n) == at / static_cast<int>(n);
        const double across = m == 1 ? 1.0 : own ? 1.0 - 2.0 / m : -2.0 / m;
        ASSERT_NEAR(std::fabs(x[i]), std::fabs(across) / std::sqrt(n), 1e-6) << i;
        ASSERT_GT(std::fabs(x[i]), 0.0) << i;
      }
    }
  }
}

}  // namespace
}  // namespace swivel
