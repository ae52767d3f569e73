#include "math/trellis.h"

#include <cstddef>
#include <limits>

namespace swivel {
namespace {

// Levels from their positive halves.
template <int kBits, size_t kHalf>
constexpr TrellisLevels<kBits> MakeLevels(const int8_t (&wide)[kHalf], float wide_step, const int8_t (&narrow)[kHalf], float narrow_step) {
  static_assert(kHalf == size_t{1} << kBits);
  TrellisLevels<kBits> levels = {};
  levels.wide_step = wide_step;
  levels.narrow_step = narrow_step;
  for (size_t i = 0; i < kHalf; ++i) {
    levels.wide[kHalf + i] = wide[i];
    levels.wide[kHalf - 1 - i] = static_cast<int8_t>(-wide[i]);
    levels.narrow[kHalf + i] = narrow[i];
    levels.narrow[kHalf - 1 - i] = static_cast<int8_t>(-narrow[i]);
  }
  for (size_t i = 0; i < 2 * kHalf; ++i) levels.level[i] = wide_step * static_cast<float>(levels.wide[i]);
  return levels;
}

constexpr int8_t kWide1[] = {29, 95};
constexpr int8_t kNarrow1[] = {18, 59};
constexpr int8_t kWide2[] = {12, 37, 66, 114};
constexpr int8_t kNarrow2[] = {6, 18, 32, 55};
constexpr int8_t kWide3[] = {5, 15, 26, 37, 50, 65, 86, 119};
constexpr int8_t kNarrow3[] = {3, 8, 14, 20, 27, 35, 46, 64};
constexpr int8_t kWide4[] = {2, 6, 10, 14, 18, 22, 27, 31, 36, 41, 47, 53, 61, 70, 82, 100};
constexpr int8_t kNarrow4[] = {1, 3, 5, 7, 9, 11, 13, 15, 18, 20, 23, 26, 30, 34, 40, 49};
constexpr int8_t kWide5[] = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 26, 28, 30, 33, 35, 38, 40, 43, 46, 49, 52, 55, 59, 63, 68,
    73, 79, 86, 96, 110};
constexpr int8_t kNarrow5[] = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 15, 16, 17, 19, 20, 22, 23, 25, 26, 28, 30, 32, 34, 36, 39,
    42, 45, 49, 55, 63};
constexpr int8_t kWide6[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 22, 23, 24, 25, 26, 27, 29, 30,
    31, 32, 33, 35, 36, 37, 39, 40, 41, 43, 44, 46, 47, 49, 50, 52, 54, 55, 57, 59, 61, 63, 65, 67, 70, 73, 75, 78, 82, 85, 89, 93,
    98, 104, 113, 127};
constexpr int8_t kNarrow6[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 11, 11, 12, 12, 13, 13, 14, 15, 15, 16,
    16, 17, 18, 18, 19, 20, 20, 21, 22, 23, 23, 24, 25, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 36, 37, 38, 40, 42, 44, 46, 48, 51,
    55, 62};
constexpr TrellisLevels<1> kLevels1 = MakeLevels<1>(kWide1, 0.01254422f, kNarrow1, 0.02019959f);
constexpr TrellisLevels<2> kLevels2 = MakeLevels<2>(kWide2, 0.01622094f, kNarrow2, 0.03352071f);
constexpr TrellisLevels<3> kLevels3 = MakeLevels<3>(kWide3, 0.02068682f, kNarrow3, 0.03846610f);
constexpr TrellisLevels<4> kLevels4 = MakeLevels<4>(kWide4, 0.03043518f, kNarrow4, 0.06208443f);
constexpr TrellisLevels<5> kLevels5 = MakeLevels<5>(kWide5, 0.03328655f, kNarrow5, 0.05798711f);
constexpr TrellisLevels<6> kLevels6 = MakeLevels<6>(kWide6, 0.03265110f, kNarrow6, 0.06662656f);

template <int kBits>
constexpr TrellisBook BookOf(const TrellisLevels<kBits>& levels) {
  return {kBits, levels.level.data(), levels.wide.data(), levels.narrow.data(), levels.wide_step, levels.narrow_step};
}
constexpr TrellisBook kBooks[] = {BookOf(kLevels1), BookOf(kLevels2), BookOf(kLevels3), BookOf(kLevels4), BookOf(kLevels5), BookOf(kLevels6)};

}  // namespace

const TrellisBook& GetTrellisBook(int bits) { return kBooks[bits - 1]; }

void TrellisSearch(const TrellisBook& book, const float* t, int length, uint8_t* u, uint8_t* m) {
  const int choices = 1 << (book.bits - 1);
  float error[kMaxTrellisLength][4];
  uint8_t choice[kMaxTrellisLength][4];
  for (int n = 0; n < length; ++n) {
    for (int k = 0; k < 4; ++k) {
      int best = 0;
      for (int j = 0; j + 1 < choices; ++j) best += t[n] >= TrellisThreshold(book, k, j);
      const float e = t[n] - book.level[4 * best + k];
      error[n][k] = e * e;
      choice[n][k] = static_cast<uint8_t>(best);
    }
  }

  // Bit s of second[n]: state s was reached the second way.
  uint8_t second[kMaxTrellisLength];
  float front[kTrellisStates], back[kTrellisStates];
  for (int s = 0; s < kTrellisStates; ++s) {
    front[s] = s == 0 ? 0.0f : std::numeric_limits<float>::infinity();
    back[s] = 0.0f;
  }
  const auto step = [&](float* cost, int n, const auto& first_subset, const auto& second_subset) {
    float next[kTrellisStates];
    second[n] = 0;
    for (int s = 0; s < kTrellisStates; ++s) {
      const float one = cost[s / 2] + error[n][first_subset[s]];
      const float two = cost[s / 2 + 4] + error[n][second_subset[s]];
      next[s] = two < one ? two : one;
      second[n] = static_cast<uint8_t>(second[n] | (two < one) << s);
    }
    for (int s = 0; s < kTrellisStates; ++s) cost[s] = next[s];
  };
  const int half = length / 2;
  for (int i = 0; i < half; ++i) {
    step(front, i, kTrellisFirst, kTrellisSecond);
    step(back, length - 1 - i, kTrellisFirstBack, kTrellisSecondBack);
  }

  int meet = 0;
  float least = std::numeric_limits<float>::infinity();
  for (int s = 0; s < kTrellisStates; ++s) {
    const float total = front[s] + back[kReversedBits[s]];
    if (total < least) {
      least = total;
      meet = s;
    }
  }
  for (int n = half - 1, s = meet; n >= 0; --n) {
    u[n] = s & 1;
    s = s >> 1 | (second[n] >> s & 1) << 2;
  }
  for (int n = half, r = kReversedBits[meet]; n < length; ++n) {
    u[n] = second[n] >> r & 1;
    r = r >> 1 | u[n] << 2;
  }
  const auto before = [&](int n) { return n < 0 ? 0 : u[n]; };
  for (int n = 0; n < length; ++n) m[n] = choice[n][TrellisSubset(u[n], before(n - 1), before(n - 2), before(n - 3))];
}

}  // namespace swivel
