// The one-bit part that qjl and turboprod share: signs of S x and the vector that they stand for.
#ifndef SWIVEL_CODEC_QJL_H_
#define SWIVEL_CODEC_QJL_H_

#include <cstdint>

#include "math/projection.h"

namespace swivel {

// Stores sign(S x) as width / 8 bytes: bit i is set where <S_i, x> >= 0.
void PutSigns(Projection projection, const float* x, int width, uint8_t* signs);

// sum[n] = c sqrt(width) (S^T signs)[n], c = 1 / (width E|<s,u>|). Times ||x|| / sqrt(width) it is a vector x~ with
// E <q, x~> = <q, x>: QJL's estimator (arXiv 2406.03482, definition 3.1) is linear in q, so it can be kept as a vector.
void SumSigns(Projection projection, const uint8_t* signs, int width, float* sum);

}  // namespace swivel

#endif  // SWIVEL_CODEC_QJL_H_
