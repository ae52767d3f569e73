// Angle codebooks of PolarQuant (arXiv 2502.02617): 16 Gaussian coordinates as 15 angles and one radius.
//
// Level 1 pairs coordinates: angle psi = atan2(b, a), radius sqrt(a^2 + b^2). Level l pairs the radii of level l - 1. For a Gaussian row
// all angles are independent; those of level 1 are uniform on [0, 2 pi), those of level l have the density
//   sin^(2^(l-1) - 1)(2 psi)   on [0, pi/2], up to a constant
// The books are the one-dimensional k-means optimum of these laws (16, 4, 4, 4 centroids), which is what the paper's offline books
// approximate from samples. Encoding compares products with tangents of the thresholds and decoding multiplies by cosines and sines from
// the tables, so no bit depends on a C library's trigonometry.
#ifndef SWIVEL_MATH_POLAR_H_
#define SWIVEL_MATH_POLAR_H_

#include <array>
#include <cmath>

namespace swivel {

inline constexpr int kPolarLevels = 4;
inline constexpr int kPolarBlock = 1 << kPolarLevels;

// Level 1: sector k of 16 is [k, k + 1) pi / 8, its centroid the middle. Cosines of (k + 1/2) pi / 8 in the first quadrant; the sines are
// the same backwards. Other quadrants follow by swapping and signs.
inline constexpr std::array<float, 4> kSectorCosines = {0.980785280f, 0.831469612f, 0.555570233f, 0.195090322f};
inline constexpr float kTanPi8 = 0.414213562f;
inline constexpr float kTan3Pi8 = 2.41421356f;

// Levels 2, 3, 4: centroids (radians) .309756 .633980, .426250 .674385, .524214 .705909, mirrored at pi/4; the middle threshold is pi/4.
struct PolarBook {
  std::array<float, 4> cosines;     // of the centroids, ascending angle; the sines are the same backwards
  float low_tangent, high_tangent;  // of the outer thresholds
};
inline constexpr std::array<PolarBook, 3> kPolarBooks = {{
    {{0.952407940f, 0.805676176f, 0.592356226f, 0.304826369f}, 0.510318356f, 1.95956110f},
    {{0.910522747f, 0.781091117f, 0.624417062f, 0.413458978f}, 0.613541933f, 1.62988045f},
    {{0.865717582f, 0.761021911f, 0.648726175f, 0.500532784f}, 0.706480026f, 1.41546818f},
}};

// The sector of (a, b); 3 for (0, 0), whose radius is 0.
inline int SectorOf(float a, float b) {
  int quadrant = 0;
  float x = a, y = b;
  if (a <= 0.0f && b > 0.0f) {
    quadrant = 1, x = b, y = -a;
  } else if (a < 0.0f && b <= 0.0f) {
    quadrant = 2, x = -a, y = -b;
  } else if (a >= 0.0f && b < 0.0f) {
    quadrant = 3, x = -b, y = a;
  }
  return 4 * quadrant + (y >= kTanPi8 * x) + (y >= x) + (y >= kTan3Pi8 * x);
}

// The unit vector of a sector's middle.
inline void SectorDirection(int sector, float* x, float* y) {
  const float cosine = kSectorCosines[sector % 4], sine = kSectorCosines[3 - sector % 4];
  const float xs[] = {cosine, -sine, -cosine, sine}, ys[] = {sine, cosine, -sine, -cosine};
  *x = xs[sector / 4];
  *y = ys[sector / 4];
}

// The code of a pair of radii at level 2, 3 or 4.
inline int PolarCode(const PolarBook& book, float r1, float r2) {
  return (r2 >= book.low_tangent * r1) + (r2 >= r1) + (r2 >= book.high_tangent * r1);
}

inline float Radius(float a, float b) { return std::sqrt(a * a + b * b); }

}  // namespace swivel

#endif  // SWIVEL_MATH_POLAR_H_
