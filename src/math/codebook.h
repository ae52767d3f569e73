// Scalar codebooks for a unit-variance Gaussian source.
#ifndef SWIVEL_MATH_CODEBOOK_H_
#define SWIVEL_MATH_CODEBOOK_H_

#include <array>
#include <cstdint>
#include <span>

namespace swivel {

// Lloyd-Max levels of N(0,1), ascending (Lloyd 1982; Max 1960). A rotated row scaled to norm sqrt(width) has coordinates close to N(0,1)
// (TurboQuant, arXiv 2504.19874, section 3); the exact spherical law differs by less than 0.5 % in distortion from width 64 on.
// Distortion of a unit Gaussian: 1 bit .363380, 2 bits .117482, 3 bits .034548, 4 bits .009501. The unit test solves the fixed point again.
inline constexpr std::array<float, 2> kLloydMax1 = {-0.797885f, 0.797885f};  // sqrt(2 / pi)
inline constexpr std::array<float, 4> kLloydMax2 = {-1.510418f, -0.452780f, 0.452780f, 1.510418f};
inline constexpr std::array<float, 8> kLloydMax3 = {-2.151946f, -1.343909f, -0.756005f, -0.245094f,
                                                    0.245094f,  0.756005f,  1.343909f,  2.151946f};
inline constexpr std::array<float, 16> kLloydMax4 = {-2.732590f, -2.069017f, -1.618046f, -1.256231f, -0.942340f, -0.656759f,
                                                     -0.388048f, -0.128395f, 0.128395f,  0.388048f,  0.656759f,  0.942340f,
                                                     1.256231f,  1.618046f,  2.069017f,  2.732590f};

// Books of 5 and 11 levels for rates between the bits: three digits of 5 or two of 11 fit 7 bits (2 1/3 and 3 1/2 bits a value).
// Distortion .079941 and .019220.
inline constexpr std::array<float, 5> kLloydMaxN5 = {-1.724147f, -0.764568f, 0.0f, 0.764568f, 1.724147f};
inline constexpr std::array<float, 11> kLloydMaxN11 = {-2.425746f, -1.692639f, -1.178826f, -0.752367f, -0.367458f, 0.0f,
                                                       0.367458f,  0.752367f,  1.178826f,  1.692639f,  2.425746f};

// What a code stands for when its lowest bits are gone: the mean of N(0,1) over the cells that became one. Lloyd-Max books are almost
// successively refinable (Equitz and Cover 1991 is the theory): .034852 for 4 bits cut to 3, .118449 for 3 cut to 2, .120294 for 4 cut
// to 2, that is 0.9, 0.8 and 2.4 % above the book made for that many bits.
inline constexpr std::array<float, 8> kLloydMax4CutTo3 = {-2.235381f, -1.405989f, -0.788685f, -0.255317f,
                                                          0.255317f,  0.788685f,  1.405989f,  2.235381f};
inline constexpr std::array<float, 4> kLloydMax3CutTo2 = {-1.565290f, -0.478717f, 0.478717f, 1.565290f};
inline constexpr std::array<float, 4> kLloydMax4CutTo2 = {-1.605217f, -0.496787f, 0.496787f, 1.605217f};

// The same levels as small integers times one step, for kernels that multiply integers.
struct ByteLevels {
  std::array<int8_t, 16> level;  // ascending; books of fewer than 16 levels fill the front
  float step;
};
// `wide` within +-127; `narrow` within +-64, for multiplications that add two products in 16 bits (2 * 255 * 64 fits). Of all integer books
// within their range these have the least root mean squared deviation from the levels over N(0,1), in thousandths of the standard deviation:
// 2 bits .26, 3 bits 1.1 and 4.5, 4 bits 3.2 and 7.2; quantization itself is off by 343, 186 and 97. (Scaling the largest level to 127 would
// give .69, 6.6, 5.7.) The unit test repeats the search.
struct IntegerBooks {
  ByteLevels wide, narrow;
};
inline constexpr IntegerBooks kLloydMax2Books = {{{-90, -27, 27, 90}, 0.016780418f}, {{-10, -3, 3, 10}, 0.15102376f}};
inline constexpr IntegerBooks kLloydMax3Books = {{{-88, -55, -31, -10, 10, 31, 55, 88}, 0.024434781f},
                                                 {{-62, -39, -22, -7, 7, 22, 39, 62}, 0.034549117f}};
inline constexpr IntegerBooks kLloydMax4Books = {
    {{-104, -79, -62, -48, -36, -25, -15, -5, 5, 15, 25, 36, 48, 62, 79, 104}, 0.026168601f},
    {{-63, -48, -37, -29, -22, -15, -9, -3, 3, 9, 15, 22, 29, 37, 48, 63}, 0.043330702f}};

// The book of `bits`, 1 to 4.
inline constexpr std::span<const float> LloydMax(int bits) {
  if (bits == 1) return kLloydMax1;
  if (bits == 2) return kLloydMax2;
  if (bits == 3) return kLloydMax3;
  return kLloydMax4;
}

// The decision threshold between two neighbouring levels: their midpoint. One expression everywhere, so that codes are bit-exact.
inline constexpr float Threshold(float low, float high) { return 0.5f * (low + high); }

}  // namespace swivel

#endif  // SWIVEL_MATH_CODEBOOK_H_
