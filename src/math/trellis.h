// Trellis codes for a unit-variance Gaussian source: Ungerboeck's 8-state code in feed-forward form (Marcellin and Fischer 1990).
//
// 2^(R+1) levels, ascending, code R bits a coordinate: one path bit u drives the trellis, R - 1 bits m choose inside a subset. Along a row,
//   z1 = u_n ^ u_(n-1) ^ u_(n-3),   z0 = u_(n-2),   level index = 4 m + 2 z1 + z0,   u_n = 0 for n < 0
// so a subset is every fourth level, and neighbouring levels are in different subsets. The code is linear and has no feedback: a decoder
// needs the four path bits of a coordinate and no serial pass. The zero start costs no side information. Tail-biting (u_-k = u_(N-k)) would
// lower the distortion of 128 coordinates by 1.7 % but needs every start state tried; it is not used.
#ifndef SWIVEL_MATH_TRELLIS_H_
#define SWIVEL_MATH_TRELLIS_H_

#include <array>
#include <cstdint>

#include "math/codebook.h"

namespace swivel {

inline constexpr int kTrellisStates = 8;
inline constexpr int kMaxTrellisLength = 576;
inline constexpr int kMaxTrellisBits = 6;
inline constexpr int kMaxTrellisLevels = 2 << kMaxTrellisBits;

// The subset 2 z1 + z0 of a coordinate from its path bit and the three before it.
inline constexpr int TrellisSubset(int u, int u1, int u2, int u3) { return 2 * (u ^ u1 ^ u3) + u2; }

// A state is u_(n-1) + 2 u_(n-2) + 4 u_(n-3). State s is reached from s / 2 and from s / 2 + 4 through the subsets kFirst[s] and kSecond[s].
inline constexpr std::array<uint8_t, kTrellisStates> kTrellisFirst = {0, 2, 2, 0, 1, 3, 3, 1};
inline constexpr std::array<uint8_t, kTrellisStates> kTrellisSecond = {2, 0, 0, 2, 3, 1, 1, 3};
// Backwards in time the trellis is the same shift register when states are named 4 u_(n-1) + 2 u_(n-2) + u_(n-3): name r before a
// coordinate is reached from the names r / 2 (its path bit is 0) and r / 2 + 4 (it is 1) after it, through these subsets.
inline constexpr std::array<uint8_t, kTrellisStates> kTrellisFirstBack = {0, 2, 1, 3, 2, 0, 3, 1};
inline constexpr std::array<uint8_t, kTrellisStates> kTrellisSecondBack = {2, 0, 3, 1, 0, 2, 1, 3};
inline constexpr std::array<uint8_t, kTrellisStates> kReversedBits = {0, 4, 2, 6, 1, 5, 3, 7};

// Levels are whole numbers times a step, so that integer kernels multiply exactly what the encoder chose: within +-127, and for
// multiplications that add two products in 16 bits a second book within +-64 (see ByteLevels), which is rounded.
template <int kBits>
struct TrellisLevels {
  static constexpr int kCount = 2 << kBits;
  std::array<float, kCount> level;
  std::array<int8_t, kCount> wide, narrow;
  float wide_step, narrow_step;
};

// What is left of it where the number of bits is a run-time value.
struct TrellisBook {
  int bits;
  const float* level;  // 2^(bits + 1), ascending
  const int8_t *wide, *narrow;
  float wide_step, narrow_step;
};

// The threshold between levels m and m + 1 of a subset.
inline float TrellisThreshold(const TrellisBook& book, int subset, int m) {
  return Threshold(book.level[4 * m + subset], book.level[4 * m + 4 + subset]);
}

// The book of `bits`, 1 to 6.
const TrellisBook& GetTrellisBook(int bits);

// The path with the least sum of squared errors to t_0 … t_(length-1): path bits u and choices m. `length` is even, at most
// kMaxTrellisLength, and t finite.
//
// The order of operations is part of the specification, so that kernels find the same path:
//   choice of m in a subset   the number of thresholds that are <= t
//   squared error             e = t - level, then e * e
//   costs                     two Viterbi searches that meet in the middle: one forwards from the zero state over the first half, one backwards
//                             over the second half from all states; each adds the error of one coordinate at a time to the cost before it
//   ties                      the first of the two ways into a state; in the middle, the state with the smallest number
void TrellisSearch(const TrellisBook& book, const float* t, int length, uint8_t* u, uint8_t* m);

}  // namespace swivel

#endif  // SWIVEL_MATH_TRELLIS_H_
