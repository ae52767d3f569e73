// Sums over rows in double, in four lanes so that the compiler can keep them in registers side by side.
#ifndef SWIVEL_EVAL_VECTOR_MATH_H_
#define SWIVEL_EVAL_VECTOR_MATH_H_

#include <cstddef>
#include <span>

namespace swivel {

// term(0) + … + term(n - 1).
template <class Term>
inline double SumOf(size_t n, Term term) {
  double lanes[4] = {};
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (size_t lane = 0; lane < 4; ++lane) lanes[lane] += term(i + lane);
  }
  for (; i < n; ++i) lanes[0] += term(i);
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

// Both spans have one length.
inline double Dot(std::span<const float> a, std::span<const float> b) {
  return SumOf(a.size(), [&](size_t i) { return static_cast<double>(a[i]) * static_cast<double>(b[i]); });
}

}  // namespace swivel

#endif  // SWIVEL_EVAL_VECTOR_MATH_H_
