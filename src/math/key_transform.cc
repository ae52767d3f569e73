#include "math/key_transform.h"

#include <cstddef>

#include "math/rotation.h"

namespace swivel {

KeyTransform HadamardTransform(int width) {
  const auto values = static_cast<size_t>(width) * width;
  KeyTransform transform = {width, width, std::vector<float>(static_cast<size_t>(width)), std::vector<float>(values), {}, std::vector<float>(values)};
  for (int j = 0; j < width; ++j) {
    float* column = &transform.forward[static_cast<size_t>(j) * width];
    column[j] = 1.0f;
    Rotate(Frame::kSignedHadamard, column, width);
    for (int i = 0; i < width; ++i) transform.inverse[static_cast<size_t>(i) * width + j] = column[i];
  }
  transform.query = transform.forward;
  return transform;
}

}  // namespace swivel
