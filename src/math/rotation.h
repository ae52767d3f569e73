// Orthogonal changes of basis for rows of any width that is a multiple of 16.
#ifndef SWIVEL_MATH_ROTATION_H_
#define SWIVEL_MATH_ROTATION_H_

#include <array>
#include <cstdint>

namespace swivel {

// kNone            identity.
// kHadamard        normalised Walsh-Hadamard over blocks of the largest power of two that divides the width: what llama.cpp applies to
//                  quantised keys.
// kHadamard64      the same over blocks of 64: what llama.cpp applies to quantised values.
// kSignedHadamard  y = (O_m (x) H_n) D x for width = m n, n the largest power of two that divides it, m odd. D = random signs, H_n =
//                  normalised Walsh-Hadamard inside each of the m blocks of n neighbours, O_m = I - (2/m) 1 1^T (a Householder
//                  reflection) across blocks, left out for m = 1. Rotation of TurboQuant (arXiv 2504.19874, Algorithm 1) with the
//                  dense random matrix replaced; O_m keeps widths such as 80 = 5 * 16 from mixing only 16 coordinates.
// kPlanar, kIsoFast, kIsoFull, kRotor
//                  rotations inside blocks of 2, 4, 4 and 3 neighbours: math/block_rotation.h.
enum class Frame : uint8_t { kNone, kHadamard, kHadamard64, kSignedHadamard, kPlanar, kIsoFast, kIsoFull, kRotor };
const char* FrameName(Frame frame);  // "none", "signs+hadamard", "planar", …

// The size n of the Walsh-Hadamard blocks of one of the three Hadamard frames at a width.
int HadamardBlock(Frame frame, int width);

inline constexpr int kMaxRotationWidth = 576;

// The signs (+1 or -1) of D: fixed for all models, so that bytes are reproducible.
extern const std::array<float, kMaxRotationWidth> kRotationSigns;

// Rotates `row` (width floats) in place. The order of additions is fixed and every kernel follows it, so that codes are bit-exact on
// all targets: butterflies with strides 1, 2, 4, …, then the scale 1/sqrt(n), then O_m.
void Rotate(Frame frame, float* row, int width);
// The inverse (transpose) of Rotate.
void InverseRotate(Frame frame, float* row, int width);

}  // namespace swivel

#endif  // SWIVEL_MATH_ROTATION_H_
