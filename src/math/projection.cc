#include "math/projection.h"

#include <cmath>
#include <iterator>
#include <mutex>

#include "base/random.h"
#include "math/lane_sum.h"

namespace swivel {
namespace {

constexpr uint64_t kSeed = 0x514a4c;  // "QJL"; part of the format
constexpr int kStep = 16;             // widths are multiples of it
constexpr int kMaxSteps = kMaxProjectionWidth / kStep;

// Squares of the widths below `steps` * 16, added up: where the matrix of a width starts.
constexpr size_t FloatsBelow(int steps) {
  size_t floats = 0;
  for (int k = 1; k < steps; ++k) floats += static_cast<size_t>(k) * k * kStep * kStep;
  return floats;
}

// Zero pages of the program until a width is used: no allocation that could fail in the middle of an encode.
float gaussian[static_cast<size_t>(kMaxProjectionWidth) * kMaxProjectionWidth];
float orthogonal[FloatsBelow(kMaxSteps + 1)];
constinit std::once_flag gaussian_made;
constinit std::once_flag orthogonal_made[kMaxSteps + 1];

// ln x for normal x > 0: x = m 2^e with m near 1, ln m = 2 artanh z, z = (m - 1) / (m + 1), |z| < .172. Twelve terms leave 1e-20.
double Log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) {
    m *= 2.0;
    --exponent;
  }
  const double z = (m - 1.0) / (m + 1.0);
  const double z2 = z * z;
  double sum = 0.0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * z2 + 1.0 / k;
  return 2.0 * z * sum + exponent * 0.69314718055994531;
}

void MakeGaussian() {
  for (size_t i = 0; i < std::size(gaussian); ++i) gaussian[i] = static_cast<float>(ReproducibleNormal(kSeed, i));
}

// Gram-Schmidt, each row twice: once would leave the last rows, whose remainder is small, askew by many roundings.
void MakeOrthogonal(float* matrix, int width) {
  const ProjectionMatrix source = GetProjection(Projection::kGaussian, width);
  double rest[kMaxProjectionWidth];
  for (int i = 0; i < width; ++i) {
    for (int n = 0; n < width; ++n) rest[n] = source.row(i)[n];
    for (int pass = 0; pass < 2; ++pass) {
      for (int j = 0; j < i; ++j) {
        const float* done = matrix + static_cast<size_t>(j) * width;
        const double along = Sum16<double>(width, [&](int n) { return rest[n] * done[n]; });
        for (int n = 0; n < width; ++n) rest[n] -= along * done[n];
      }
    }
    const double norm = std::sqrt(Sum16<double>(width, [&](int n) { return rest[n] * rest[n]; }));
    for (int n = 0; n < width; ++n) matrix[static_cast<size_t>(i) * width + n] = static_cast<float>(rest[n] / norm);
  }
}

}  // namespace

double ReproducibleNormal(uint64_t seed, uint64_t index) {
  for (uint64_t attempt = 0;; ++attempt) {
    // 64 attempts a number (each succeeds with probability pi/4), then the next number's.
    const uint64_t bits = SplitMix64((seed << 32) + (index << 6) + attempt);
    const double u = (static_cast<double>(bits >> 32) + 0.5) * 0x1p-31 - 1.0;
    const double v = (static_cast<double>(bits & 0xffffffffu) + 0.5) * 0x1p-31 - 1.0;
    const double s = u * u + v * v;
    if (s < 1.0) return u * std::sqrt(-2.0 * Log(s) / s);
  }
}

ProjectionMatrix GetProjection(Projection projection, int width) {
  if (projection == Projection::kGaussian) {
    std::call_once(gaussian_made, MakeGaussian);
    return {gaussian, kMaxProjectionWidth, width};
  }
  const int steps = width / kStep;
  float* matrix = orthogonal + FloatsBelow(steps);
  std::call_once(orthogonal_made[steps], [=] { MakeOrthogonal(matrix, width); });
  return {matrix, static_cast<size_t>(width), width};
}

double MeanAbsProjection(Projection projection, int width) {
  if (projection == Projection::kGaussian) return 0.79788456080286536;
  // Gamma(w/2) / Gamma((w+1)/2) gains w / (w + 1) when w grows by 2; 2 / pi at w = 2.
  double mean = 0.63661977236758134;
  for (int w = 2; w < width; w += 2) mean *= static_cast<double>(w) / (w + 1);
  return mean;
}

}  // namespace swivel
