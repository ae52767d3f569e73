// The interval of a share that was counted (Wilson 1927): unlike share ± error it stays within 0 and 1 and says something at 0 of n.
#ifndef SWIVEL_EVAL_WILSON_H_
#define SWIVEL_EVAL_WILSON_H_

#include <algorithm>
#include <cmath>

namespace swivel {

struct ShareInterval {
  double low = 0, high = 1;
};

// 95 %. With n = 0 nothing is known: 0 … 1.
inline ShareInterval WilsonInterval(int successes, int n) {
  if (n <= 0) return {};
  constexpr double kZ = 1.959963984540054;
  const double count = n, share = successes / count, z2 = kZ * kZ;
  const double center = (share + z2 / (2 * count)) / (1 + z2 / count);
  const double half = kZ / (1 + z2 / count) * std::sqrt(share * (1 - share) / count + z2 / (4 * count * count));
  return {std::max(0.0, center - half), std::min(1.0, center + half)};
}

}  // namespace swivel

#endif  // SWIVEL_EVAL_WILSON_H_
