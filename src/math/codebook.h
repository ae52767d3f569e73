// Scalar codebooks for a unit-variance Gaussian source.
#ifndef SWIVEL_MATH_CODEBOOK_H_
#define SWIVEL_MATH_CODEBOOK_H_

#include <array>

namespace swivel {

// Lloyd-Max levels of N(0,1), ascending (Lloyd 1982; Max 1960). A rotated row scaled to norm sqrt(width) has coordinates close to N(0,1)
// (TurboQuant, arXiv 2504.19874, section 3); the exact spherical law differs by less than 0.5 % in distortion from width 64 on.
// Distortion of a unit Gaussian: 2 bits .117482, 3 bits .034548, 4 bits .009501. The unit test solves the fixed point again.
inline constexpr std::array<float, 4> kLloydMax2 = {-1.510418f, -0.452780f, 0.452780f, 1.510418f};
inline constexpr std::array<float, 8> kLloydMax3 = {-2.151946f, -1.343909f, -0.756005f, -0.245094f,
                                                    0.245094f,  0.756005f,  1.343909f,  2.151946f};
inline constexpr std::array<float, 16> kLloydMax4 = {-2.732590f, -2.069017f, -1.618046f, -1.256231f, -0.942340f, -0.656759f,
                                                     -0.388048f, -0.128395f, 0.128395f,  0.388048f,  0.656759f,  0.942340f,
                                                     1.256231f,  1.618046f,  2.069017f,  2.732590f};

// The decision threshold between two neighbouring levels: their midpoint. One expression everywhere, so that codes are bit-exact.
inline constexpr float Threshold(float low, float high) { return 0.5f * (low + high); }

}  // namespace swivel

#endif  // SWIVEL_MATH_CODEBOOK_H_
