// Scalar pieces of the turbo encoder that the kernels and other codecs share, so that bytes agree on every target.
#ifndef SWIVEL_CODEC_TURBO_H_
#define SWIVEL_CODEC_TURBO_H_

#include <cstdint>
#include <span>

#include "codec/codec.h"

namespace swivel {

// The power of two that a row is divided by before it is rotated; `largest` = max |x_i| > 0, finite.
int RowExponent(float largest);
float PowerOfTwo(int exponent);

// A row as codecs with a scale of their own see it.
struct LoadedRow {
  bool is_flat;         // zeros, or a NaN or an infinity inside: there is nothing to code
  uint16_t flat_scale;  // the e8m8 scale that says which: 0 or kScaleNan
  int exponent;         // else: y = R (row 2^-exponent)
};
LoadedRow LoadRow(Frame frame, const float* row, int width, float* y);

// The nearest of the ascending `levels` for each y_i sqrt(width) / ||y||, and the sums that RowScale wants. y must not be zero. Sums run
// as Sum16 adds, with zeros behind the row: the order is part of the formats.
struct CodeSums {
  float norm2, code_norm2, product;  // ||y||^2, ||c||^2, <c, y>
};
CodeSums NearestLevels(std::span<const float> levels, const float* y, int width, uint8_t* codes);

// The scale of a row by its mode.
float RowScale(ScaleMode mode, const CodeSums& sums);
// The same as it is stored (e8m8), y already divided by 2^exponent.
uint16_t RowScale(ScaleMode mode, const CodeSums& sums, int exponent);
// The root mean square of y 2^exponent as it is stored, from norm2 = ||y||^2.
uint16_t RmsScale(float norm2, int width, int exponent);

}  // namespace swivel

#endif  // SWIVEL_CODEC_TURBO_H_
