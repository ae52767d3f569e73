// The square matrices S of the Quantized Johnson-Lindenstrauss transform (QJL, arXiv 2406.03482): a row x is kept as sign(S x).
//
//   kGaussian    entries N(0,1), the matrix of the paper's analysis. S of a width is the upper left corner of one matrix for all widths.
//   kOrthogonal  its rows made orthonormal by Gram-Schmidt, as the paper's experiments do: about 2.75 times less variance.
//
// One matrix a width for all models, from a fixed seed: S is part of the format, so it is computed with + - * / and sqrt alone, in a fixed
// order. A C library's log or cosine may differ in the last bit, which would flip signs.
#ifndef SWIVEL_MATH_PROJECTION_H_
#define SWIVEL_MATH_PROJECTION_H_

#include <cstddef>
#include <cstdint>

namespace swivel {

inline constexpr int kMaxProjectionWidth = 576;

enum class Projection : uint8_t { kGaussian, kOrthogonal };

class ProjectionMatrix {
 public:
  ProjectionMatrix(const float* data, size_t stride, int width) : data_(data), stride_(stride), width_(width) {}

  int width() const { return width_; }
  // Row i: `width` floats.
  const float* row(int i) const { return data_ + i * stride_; }

 private:
  const float* data_;
  size_t stride_;
  int width_;
};

// S of a width (a multiple of 16 up to kMaxProjectionWidth). The first call of a kind and width computes it (width 128: milliseconds;
// 576: a few tenths of a second); any thread may call at any time. Cannot fail: the memory is reserved with the program and touched as
// widths are used.
ProjectionMatrix GetProjection(Projection projection, int width);

// E |<s, u>| for a row s of the random S and a unit vector u:
//   kGaussian    sqrt(2 / pi)
//   kOrthogonal  Gamma(w/2) / (sqrt(pi) Gamma((w+1)/2)), s uniform on the sphere
// so that ||x|| / (w E|<s,u>|) <S q, sign(S x)> estimates <q, x> without bias over S: sqrt(pi/2) / w of the paper for kGaussian, near
// sqrt(pi / (2 w)) for kOrthogonal.
double MeanAbsProjection(Projection projection, int width);

// One standard normal number by its place in a stream: Marsaglia's polar method on SplitMix64, with a logarithm of our own. The same
// bits on every machine, which Random::Normal does not promise.
double ReproducibleNormal(uint64_t seed, uint64_t index);

}  // namespace swivel

#endif  // SWIVEL_MATH_PROJECTION_H_
