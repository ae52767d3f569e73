// The change of basis in which a calibrated cache stores keys.
//
//   y = T (k - mean),   q . k = (T^-T q) . y + q . mean
// T is any invertible matrix: the softmax stays exact but for the rounding of y, because the query is transformed the other way. The last
// term is the same for all keys that have the same mean.
#ifndef SWIVEL_MATH_KEY_TRANSFORM_H_
#define SWIVEL_MATH_KEY_TRANSFORM_H_

#include <vector>

namespace swivel {

// The coordinates of y fall into two segments with codes and scales of their own. The first holds half of them, a multiple of 16.
inline constexpr int FirstSegment(int width) { return (width / 2 + 15) / 16 * 16; }

// Plain data of one KV head. Matrices are stored by columns: m[j * width + i] = M_ij.
struct KeyTransform {
  int width = 0;
  int split = 0;               // coordinates of the first segment; width: there is only one
  std::vector<float> mean;     // [width]
  std::vector<float> forward;  // T
  std::vector<float> query;    // T^-T
  std::vector<float> inverse;  // T^-1
};

// The signed Hadamard rotation (math/rotation.h) as such a transform: no mean, one segment.
KeyTransform HadamardTransform(int width);

}  // namespace swivel

#endif  // SWIVEL_MATH_KEY_TRANSFORM_H_
