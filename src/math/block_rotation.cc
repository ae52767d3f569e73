#include "math/block_rotation.h"

#include <cstdint>

#include "base/random.h"

namespace swivel {
namespace {

// The square root by Newton's iteration from above: the same double everywhere, also at compile time where std::sqrt is not allowed.
constexpr double SquareRoot(double x) {
  double root = x > 1.0 ? x : 1.0;
  for (double next = 0.5 * (root + x / root); next < root; next = 0.5 * (root + x / root)) root = next;
  return root;
}

struct Quaternion {
  double w, x, y, z;
};

// Directions drawn uniformly, without a cosine or a logarithm: their last bits differ between C libraries, and the tables are part of the
// format. Components are odd integers below 2^24, so the squares and their sum are exact; vectors outside the ball are drawn again.
class Directions {
 public:
  constexpr explicit Directions(uint64_t seed) : counter_(seed) {}

  constexpr std::array<double, 2> OnCircle() {
    for (;;) {
      const double x = Component(), y = Component();
      const double squares = x * x + y * y;
      if (squares > kBall) continue;
      const double norm = SquareRoot(squares);
      return {x / norm, y / norm};
    }
  }

  constexpr Quaternion OnSphere() {
    for (;;) {
      const Quaternion q = {Component(), Component(), Component(), Component()};
      const double squares = q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z;
      if (squares > kBall) continue;
      const double norm = SquareRoot(squares);
      return {q.w / norm, q.x / norm, q.y / norm, q.z / norm};
    }
  }

 private:
  static constexpr double kBall = 0x1p48;
  constexpr double Component() { return 2.0 * static_cast<double>(SplitMix64(counter_++) >> 40) + 1.0 - 0x1p24; }

  uint64_t counter_;
};

// Seeds: the names in ASCII.
constexpr uint64_t kPlanarSeed = 0x706c616e6172, kIsoFastSeed = 0x69736f66617374, kIsoFullSeed = 0x69736f66756c6c,
                   kRotorSeed = 0x726f746f72;

// The Hamilton product a b.
constexpr Quaternion Product(const Quaternion& a, const Quaternion& b) {
  return {a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z, a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
          a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x, a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w};
}

constexpr Quaternion Conjugate(const Quaternion& q) { return {q.w, -q.x, -q.y, -q.z}; }

constexpr SwapMatrix MakePlanar() {
  SwapMatrix m = {2, {}};
  Directions directions(kPlanarSeed);
  for (int i = 0; i < kMaxRotationWidth; i += 2) {
    const std::array<double, 2> angle = directions.OnCircle();
    m.c[0][i] = m.c[0][i + 1] = static_cast<float>(angle[0]);
    m.c[1][i] = static_cast<float>(-angle[1]);
    m.c[1][i + 1] = static_cast<float>(angle[1]);
  }
  return m;
}

// Columns are the images of the four units, so both forms of iso cost one 4 x 4 product.
constexpr SwapMatrix MakeIso(uint64_t seed, bool full) {
  SwapMatrix m = {4, {}};
  Directions directions(seed);
  for (int i = 0; i < kMaxRotationWidth; i += 4) {
    const Quaternion left = directions.OnSphere();
    const Quaternion right = full ? Conjugate(directions.OnSphere()) : Quaternion{1.0, 0.0, 0.0, 0.0};
    for (int j = 0; j < 4; ++j) {
      const Quaternion unit = {j == 0 ? 1.0 : 0.0, j == 1 ? 1.0 : 0.0, j == 2 ? 1.0 : 0.0, j == 3 ? 1.0 : 0.0};
      const Quaternion image = Product(Product(left, unit), right);
      const double column[4] = {image.w, image.x, image.y, image.z};
      for (int row = 0; row < 4; ++row) m.c[row ^ j][i + row] = static_cast<float>(column[row]);
    }
  }
  return m;
}

// The sandwich R v R~ with its zeros left out: R v has the grades 1 and 3 only (four components), and of the second product only grade 1
// is not zero. RotorQuant stores the other slots of the multivector too; they carry nothing.
constexpr std::array<double, 3> Sandwich(const Quaternion& rotor, const std::array<double, 3>& v) {
  const double s = rotor.w, b12 = rotor.x, b13 = rotor.y, b23 = rotor.z;
  const double m1 = s * v[0] + b12 * v[1] + b13 * v[2];
  const double m2 = s * v[1] - b12 * v[0] + b23 * v[2];
  const double m3 = s * v[2] - b13 * v[0] - b23 * v[1];
  const double m123 = b23 * v[0] - b13 * v[1] + b12 * v[2];
  return {s * m1 + b12 * m2 + b13 * m3 + b23 * m123, s * m2 - b12 * m1 + b23 * m3 - b13 * m123, s * m3 - b13 * m1 - b23 * m2 + b12 * m123};
}

constexpr auto MakeRotors() {
  std::array<std::array<float, 9>, kMaxRotationWidth / 3> matrices{};
  Directions directions(kRotorSeed);
  for (std::array<float, 9>& m : matrices) {
    const Quaternion rotor = directions.OnSphere();
    for (int j = 0; j < 3; ++j) {
      const std::array<double, 3> image = Sandwich(rotor, {j == 0 ? 1.0 : 0.0, j == 1 ? 1.0 : 0.0, j == 2 ? 1.0 : 0.0});
      for (int row = 0; row < 3; ++row) m[3 * row + j] = static_cast<float>(image[row]);
    }
  }
  return matrices;
}

// The pair at `start`, the angle from the planar table at an even place.
void TurnPair(float* row, int start, bool inverse) {
  const int even = start / 2 * 2;
  const float cosine = kPlanarMatrix.c[0][even];
  const float sine = inverse ? -kPlanarMatrix.c[1][even + 1] : kPlanarMatrix.c[1][even + 1];
  const float first = row[start], second = row[start + 1];
  row[start] = cosine * first + -sine * second;
  row[start + 1] = cosine * second + sine * first;
}

// Block by block; the order of the terms is that of SwapMatrix.
void Swaps(const SwapMatrix& m, float* row, int width, bool inverse) {
  for (int start = 0; start + m.terms <= width; start += m.terms) {
    float y[4];
    for (int i = 0; i < m.terms; ++i) {
      for (int k = 0; k < m.terms; ++k) {
        const float term = m.c[k][start + (inverse ? i ^ k : i)] * row[start + (i ^ k)];
        y[i] = k == 0 ? term : y[i] + term;
      }
    }
    for (int i = 0; i < m.terms; ++i) row[start + i] = y[i];
  }
}

void Rotors(float* row, int width, bool inverse) {
  for (int start = 0; start + 3 <= width; start += 3) {
    const std::array<float, 9>& m = kRotorMatrices[start / 3];
    const float x0 = row[start], x1 = row[start + 1], x2 = row[start + 2];
    for (int i = 0; i < 3; ++i) {
      row[start + i] = inverse ? (m[i] * x0 + m[3 + i] * x1) + m[6 + i] * x2 : (m[3 * i] * x0 + m[3 * i + 1] * x1) + m[3 * i + 2] * x2;
    }
  }
}

void Turn(Frame frame, float* row, int width, bool inverse) {
  const int block = frame == Frame::kRotor ? 3 : SwapMatrixOf(frame).terms;
  if (frame == Frame::kRotor) {
    Rotors(row, width, inverse);
  } else {
    Swaps(SwapMatrixOf(frame), row, width, inverse);
  }
  if (width % block >= 2) TurnPair(row, width / block * block, inverse);
}

}  // namespace

constinit const SwapMatrix kPlanarMatrix = MakePlanar();
constinit const SwapMatrix kIsoFastMatrix = MakeIso(kIsoFastSeed, false);
constinit const SwapMatrix kIsoFullMatrix = MakeIso(kIsoFullSeed, true);
constinit const std::array<std::array<float, 9>, kMaxRotationWidth / 3> kRotorMatrices = MakeRotors();

const SwapMatrix& SwapMatrixOf(Frame frame) {
  if (frame == Frame::kPlanar) return kPlanarMatrix;
  return frame == Frame::kIsoFast ? kIsoFastMatrix : kIsoFullMatrix;
}

void RotateBlocks(Frame frame, float* row, int width) { Turn(frame, row, width, false); }

void InverseRotateBlocks(Frame frame, float* row, int width) { Turn(frame, row, width, true); }

}  // namespace swivel
