// Scalar pieces of the encoders of table codes; the kernels share those that decide bytes, so that bytes agree on every target.
#ifndef SWIVEL_CODEC_TURBO_H_
#define SWIVEL_CODEC_TURBO_H_

#include <cstdint>
#include <span>

#include "codec/codec.h"

namespace swivel {

// The power of two that a row is divided by before it is rotated; `largest` = max |x_i| > 0, finite.
int RowExponent(float largest);
float PowerOfTwo(int exponent);

// The scale of a row by its mode from norm2 = ||y||^2, code_norm2 = ||c||^2, product = <c, y>.
float RowScale(ScaleMode mode, float norm2, float code_norm2, float product);
// As it is stored (e8m8), times 2^exponent.
uint16_t RowScale(ScaleMode mode, float norm2, float code_norm2, float product, int exponent);

// What a row is before anything is encoded. A zero row gets the scale 0, a damaged one (NaN or an infinity inside) the scale NaN.
enum class RowKind { kOrdinary, kZero, kDamaged };

// y = row / 2^exponent with the largest value in [1, 2) (less for denormals): exact, and no sum of squares leaves the range of a float.
// Sets y and exponent of ordinary rows only.
RowKind ScaleDown(const float* row, int width, float* y, int* exponent);

// The nearest of the ascending `levels` for each y_i sqrt(width) / ||y||, and the sums that RowScale wants. y must not be zero.
// All sums run in 16 lanes, then as a tree: the order is part of the formats.
struct CodeSums {
  float norm2, code_norm2, product;
};
CodeSums NearestLevels(std::span<const float> levels, const float* y, int width, uint8_t* codes);

}  // namespace swivel

#endif  // SWIVEL_CODEC_TURBO_H_
