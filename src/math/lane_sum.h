// Sums whose order is part of a specification.
#ifndef SWIVEL_MATH_LANE_SUM_H_
#define SWIVEL_MATH_LANE_SUM_H_

namespace swivel {

// Adds term(0) … term(n - 1) in 16 lanes, then the lanes as a tree: the order of a 512-bit register, so that kernels are bit-exact and
// compilers may use vectors. `n` is a multiple of 16.
template <class Float = float, class Term>
Float Sum16(int n, Term term) {
  Float lanes[16] = {};
  for (int i = 0; i < n; i += 16) {
    for (int lane = 0; lane < 16; ++lane) lanes[lane] += term(i + lane);
  }
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// <a, b> as Sum16 adds.
inline float Dot16(const float* a, const float* b, int n) {
  return Sum16(n, [&](int i) { return a[i] * b[i]; });
}

}  // namespace swivel

#endif  // SWIVEL_MATH_LANE_SUM_H_
