// Block rotations against dense double-precision matrices that are built here from the algebra: complex numbers, quaternions, and the
// full geometric product of Cl(3,0).
#include "math/block_rotation.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "math/test_matrices.h"

namespace swivel {
namespace {

using test_matrices::Matrix;
using test_matrices::Norm;
using test_matrices::RandomRow;

constexpr Frame kFrames[] = {Frame::kPlanar, Frame::kIsoFast, Frame::kIsoFull, Frame::kRotor};
// Head widths, and widths that leave 1, 2 and 3 coordinates behind the last block.
constexpr int kWidths[] = {1, 2, 3, 4, 5, 32, 48, 64, 65, 80, 96, 127, 128, 320, 575, 576};

int BlockOf(Frame frame) { return frame == Frame::kPlanar ? 2 : frame == Frame::kRotor ? 3 : 4; }

// The documented draw: odd integers below 2^24 from the top 24 bits of SplitMix64, drawn again while outside the ball.
class Draw {
 public:
  explicit Draw(const std::string& name) {
    for (char letter : name) counter_ = counter_ << 8 | static_cast<uint64_t>(letter);
  }
  std::vector<double> Direction(int dimensions) {
    for (;;) {
      std::vector<double> x(dimensions);
      double squares = 0.0;
      for (double& value : x) {
        value = 2.0 * static_cast<double>(SplitMix64(counter_++) >> 40) + 1.0 - 16777216.0;
        squares += value * value;
      }
      if (squares > std::ldexp(1.0, 48)) continue;
      for (double& value : x) value /= std::sqrt(squares);
      return x;
    }
  }

 private:
  uint64_t counter_ = 0;
};

// Quaternions by the table of their units: i j = k, j k = i, k i = j, each square -1.
std::vector<double> QuaternionProduct(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr int kUnit[4][4] = {{0, 1, 2, 3}, {1, 0, 3, 2}, {2, 3, 0, 1}, {3, 2, 1, 0}};
  constexpr int kSign[4][4] = {{1, 1, 1, 1}, {1, -1, 1, -1}, {1, -1, -1, 1}, {1, 1, -1, -1}};
  std::vector<double> product(4, 0.0);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) product[kUnit[i][j]] += kSign[i][j] * a[i] * b[j];
  }
  return product;
}

std::vector<double> QuaternionConjugate(std::vector<double> q) {
  for (int i = 1; i < 4; ++i) q[i] = -q[i];
  return q;
}

// Multivectors of Cl(3,0) as 8 numbers; bit i of an index stands for e_(i+1). Blades multiply by xor; each swap of two units flips the
// sign.
using Multivector = std::vector<double>;
Multivector GeometricProduct(const Multivector& a, const Multivector& b) {
  Multivector product(8, 0.0);
  for (unsigned i = 0; i < 8; ++i) {
    for (unsigned j = 0; j < 8; ++j) {
      int swaps = 0;
      for (unsigned rest = i >> 1; rest != 0; rest >>= 1) swaps += std::popcount(rest & j);
      product[i ^ j] += (swaps % 2 == 0 ? 1.0 : -1.0) * a[i] * b[j];
    }
  }
  return product;
}

// R x R~ of a vector x; checks that every other grade vanishes.
std::vector<double> RotorSandwich(const std::vector<double>& rotor, const std::vector<double>& x) {
  Multivector r(8, 0.0), v(8, 0.0);
  r[0] = rotor[0];
  r[0b011] = rotor[1];  // e12
  r[0b101] = rotor[2];  // e13
  r[0b110] = rotor[3];  // e23
  for (int i = 0; i < 3; ++i) v[1 << i] = x[i];
  Multivector reverse = r;
  for (unsigned bivector : {0b011u, 0b101u, 0b110u}) reverse[bivector] = -reverse[bivector];
  const Multivector image = GeometricProduct(GeometricProduct(r, v), reverse);
  for (unsigned blade : {0b000u, 0b011u, 0b101u, 0b110u, 0b111u}) EXPECT_NEAR(image[blade], 0.0, 1e-15);
  return {image[1], image[2], image[4]};
}

void PutPair(Matrix* r, int start, const std::vector<double>& angle) {
  (*r)[start][start] = (*r)[start + 1][start + 1] = angle[0];
  (*r)[start][start + 1] = -angle[1];
  (*r)[start + 1][start] = angle[1];
}

Matrix Reference(Frame frame, int width) {
  Matrix r(width, std::vector<double>(width, 0.0));
  for (int i = 0; i < width; ++i) r[i][i] = 1.0;
  const int block = BlockOf(frame);
  Draw draw(frame == Frame::kPlanar ? "planar" : frame == Frame::kIsoFast ? "isofast" : frame == Frame::kIsoFull ? "isofull" : "rotor");
  for (int start = 0; start + block <= width; start += block) {
    if (frame == Frame::kPlanar) {
      PutPair(&r, start, draw.Direction(2));
      continue;
    }
    const std::vector<double> left = draw.Direction(4);
    const std::vector<double> right = frame == Frame::kIsoFull ? draw.Direction(4) : std::vector<double>{1.0, 0.0, 0.0, 0.0};
    for (int j = 0; j < block; ++j) {
      std::vector<double> unit(block, 0.0);
      unit[j] = 1.0;
      const std::vector<double> image =
          frame == Frame::kRotor ? RotorSandwich(left, unit) : QuaternionProduct(QuaternionProduct(left, unit), QuaternionConjugate(right));
      for (int i = 0; i < block; ++i) r[start + i][start + j] = image[i];
    }
  }
  if (width % block >= 2) {
    const int start = width / block * block;
    Draw pairs("planar");
    std::vector<double> angle;
    for (int pair = 0; pair <= start / 2; ++pair) angle = pairs.Direction(2);
    PutPair(&r, start, angle);
  }
  return r;
}

template <class Body>
void ForEachFrameAndWidth(Body body) {
  uint64_t seed = 300;
  for (Frame frame : kFrames) {
    for (int width : kWidths) {
      SCOPED_TRACE(std::string(FrameName(frame)) + " width " + std::to_string(width) + " seed " + std::to_string(++seed));
      body(frame, width, RandomRow(width, seed));
    }
  }
}

TEST(BlockRotation, EqualsTheAlgebra) {
  ForEachFrameAndWidth([](Frame frame, int width, const std::vector<float>& x) {
    test_matrices::ExpectRotatesAs(Reference(frame, width), frame, x, 8 * 6e-8 * Norm(x));
  });
}

TEST(BlockRotation, InverseUndoesItAndNormsStay) {
  ForEachFrameAndWidth([](Frame frame, int width, const std::vector<float>& x) {
    std::vector<float> y = x;
    Rotate(frame, y.data(), width);
    EXPECT_NEAR(Norm(y) / Norm(x), 1.0, 1e-6);
    InverseRotate(frame, y.data(), width);
    for (int i = 0; i < width; ++i) ASSERT_NEAR(y[i], x[i], 1e-6 * Norm(x)) << i;
  });
}

// What makes these frames weak: energy stays in its block.
TEST(BlockRotation, ASpikeStaysInItsBlock) {
  for (Frame frame : kFrames) {
    const int block = BlockOf(frame);
    for (int at = 0; at < 128; ++at) {
      std::vector<float> x(128, 0.0f);
      x[at] = 1.0f;
      Rotate(frame, x.data(), 128);
      for (int i = 0; i < 128; ++i) {
        if (i / block == at / block) continue;
        ASSERT_EQ(x[i], 0.0f) << FrameName(frame) << " " << at << " " << i;
      }
    }
  }
}

// The equivalence that makes a Clifford product unnecessary: the rotor is the quaternion (s, -b23, b13, -b12) with v -> q v conj(q).
TEST(BlockRotation, RotorsAreQuaternions) {
  Draw draw("any");
  for (int i = 0; i < 20; ++i) {
    const std::vector<double> rotor = draw.Direction(4), q = {rotor[0], -rotor[3], rotor[2], -rotor[1]};
    const std::vector<double> v = draw.Direction(3);
    const std::vector<double> image = RotorSandwich(rotor, v);
    const std::vector<double> same = QuaternionProduct(QuaternionProduct(q, {0.0, v[0], v[1], v[2]}), QuaternionConjugate(q));
    for (int j = 0; j < 3; ++j) ASSERT_NEAR(image[j], same[j + 1], 1e-15);
  }
}

// Uniform draws: the mean of a squared entry is one over the block size (axis and angle drawn apart, as RotorQuant does, give .467
// instead of 1/3). 2.5 standard deviations of the mean.
TEST(BlockRotation, DrawsAreUniform) {
  const auto mean_square = [](Frame frame) {
    const int block = BlockOf(frame);
    double sum = 0.0;
    for (int start = 0; start + block <= 576; start += block) {
      std::vector<float> x(576, 0.0f);
      x[start] = 1.0f;
      Rotate(frame, x.data(), 576);
      sum += x[start] * x[start];
    }
    return sum / (576 / block);
  };
  EXPECT_NEAR(mean_square(Frame::kPlanar), 1.0 / 2, 2.5 * std::sqrt(1.0 / 8 / 288));
  EXPECT_NEAR(mean_square(Frame::kRotor), 1.0 / 3, 2.5 * std::sqrt(4.0 / 45 / 192));
  EXPECT_NEAR(mean_square(Frame::kIsoFast), 1.0 / 4, 2.5 * std::sqrt(1.0 / 16 / 144));
  EXPECT_NEAR(mean_square(Frame::kIsoFull), 1.0 / 4, 2.5 * std::sqrt(1.0 / 16 / 144));
}

uint64_t HashOfBits(const float* values, size_t count) {
  uint64_t hash = 0;
  for (size_t i = 0; i < count; ++i) hash = SplitMix64(hash ^ std::bit_cast<uint32_t>(values[i]));
  return hash;
}

TEST(BlockRotation, TablesArePinned) {
  // The tables are part of the formats: one hash over the bits of each.
  const auto hash_of = [](const SwapMatrix& m) { return HashOfBits(m.c[0].data(), m.c.size() * m.c[0].size()); };
  EXPECT_EQ(hash_of(kPlanarMatrix), 0x142c66e99b330b8bull) << std::hex << hash_of(kPlanarMatrix);
  EXPECT_EQ(hash_of(kIsoFastMatrix), 0xdce47a9289938635ull) << std::hex << hash_of(kIsoFastMatrix);
  EXPECT_EQ(hash_of(kIsoFullMatrix), 0x21c06125155f9de6ull) << std::hex << hash_of(kIsoFullMatrix);
  const uint64_t rotors = HashOfBits(kRotorMatrices[0].data(), kRotorMatrices.size() * 9);
  EXPECT_EQ(rotors, 0x3d37a6365369401cull) << std::hex << rotors;
}

}  // namespace
}  // namespace swivel
