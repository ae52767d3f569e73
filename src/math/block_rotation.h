// Rotations that mix 2, 3 or 4 neighbouring coordinates only: the frames of the planar, rotor and iso codecs.
//
// Offered for comparison: on a row whose energy sits in few channels a block keeps it (docs/block_rotations.md has formulas, sources and figures).
// One table a frame, fixed for all models, layers and heads, K and V, built here and read by every path: the CPU and GPU tables of
// a public implementation differ, and prompts encoded by one and decoded by the other are noise.
#ifndef SWIVEL_MATH_BLOCK_ROTATION_H_
#define SWIVEL_MATH_BLOCK_ROTATION_H_

#include <array>

#include "math/rotation.h"

namespace swivel {

// A matrix of 2 x 2 or 4 x 4 blocks in the form that vectors like: y_i = sum_k c[k][i] x[i xor k], k = 0 … terms - 1, added in that order.
// Its transpose is z_i = sum_k c[k][i xor k] y[i xor k].
struct SwapMatrix {
  int terms;  // 2 or 4, the size of a block
  std::array<std::array<float, kMaxRotationWidth>, 4> c;
};

// kPlanar    [y0 y1] = [[cos, -sin], [sin, cos]] [x0 x1], the angle of each pair uniform on the circle.
// kIsoFast   y = q x, the four coordinates read as the quaternion (w, x, y, z); q uniform on the unit sphere.
// kIsoFull   y = q x conj(r), q and r uniform: every rotation of four dimensions.
extern const SwapMatrix kPlanarMatrix, kIsoFastMatrix, kIsoFullMatrix;
// Of kPlanar, kIsoFast or kIsoFull.
const SwapMatrix& SwapMatrixOf(Frame frame);

// kRotor: y = R x R~ with the rotor R = s + b12 e12 + b13 e13 + b23 e23 of Cl(3,0), uniform on the unit sphere, as a matrix (rows of 3).
extern const std::array<std::array<float, 9>, kMaxRotationWidth / 3> kRotorMatrices;

// Rotate and InverseRotate of math/rotation.h for these frames, for any width from 1 to kMaxRotationWidth. What is left behind the last
// whole block (rotor: 2 at width 128, 1 at width 64) is a smaller rotation, not padding: a pair turns as kPlanar turns the pair
// start / 2, a single coordinate stays.
void RotateBlocks(Frame frame, float* row, int width);
void InverseRotateBlocks(Frame frame, float* row, int width);

}  // namespace swivel

#endif  // SWIVEL_MATH_BLOCK_ROTATION_H_
