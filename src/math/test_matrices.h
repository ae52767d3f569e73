// What the tests of rotations share: dense matrices as references, and rows to turn.
#ifndef SWIVEL_MATH_TEST_MATRICES_H_
#define SWIVEL_MATH_TEST_MATRICES_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "math/rotation.h"

namespace swivel::test_matrices {

// Row-major R with y = R x.
using Matrix = std::vector<std::vector<double>>;

inline std::vector<float> RandomRow(int width, uint64_t seed) {
  Random random(seed);
  std::vector<float> x(width);
  for (float& value : x) value = random.Normal();
  return x;
}

inline double Norm(const std::vector<float>& x) {
  double sum = 0.0;
  for (float value : x) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

// Rotate(x) is R x and InverseRotate(x) is R^T x, each coordinate within `bound`.
inline void ExpectRotatesAs(const Matrix& r, Frame frame, const std::vector<float>& x, double bound) {
  const int width = static_cast<int>(x.size());
  std::vector<float> y = x, z = x;
  Rotate(frame, y.data(), width);
  InverseRotate(frame, z.data(), width);
  for (int i = 0; i < width; ++i) {
    double forward = 0.0, inverse = 0.0;
    for (int j = 0; j < width; ++j) {
      forward += r[i][j] * x[j];
      inverse += r[j][i] * x[j];
    }
    ASSERT_NEAR(y[i], forward, bound) << i;
    ASSERT_NEAR(z[i], inverse, bound) << i;
  }
}

}  // namespace swivel::test_matrices

#endif  // SWIVEL_MATH_TEST_MATRICES_H_
