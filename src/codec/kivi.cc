// kivi2, kivi4: KIVI (arXiv 2402.02750): asymmetric min/max quantisation, keys by channel and values by token, in blocks of 32.
//
//   x^ = least + step * code,   code = 0 … 2^b - 1,   least <= min of the block,   step >= (max - least) / (2^b - 1)
// A block is 32 tokens of one channel (keys) or 32 channels of one token (values). `least` is rounded down to a half and `step` up, so
// every value of a block lies between its outer levels and is off by at most step / 2. Keys as halves have their minimum exactly.
//
// Key channels keep their outliers to themselves this way, but 32 rows must be there at once, hence encode_group. The paper keeps the rest
// of the division by 32, and a window of the last tokens, in full precision: the cache does that for every codec that encodes groups.
//
// Keys: four parts of 32 tokens, each | w x (f16 step, f16 least) | 32 x w codes of b bits |
// Values: rows of w/32 blocks, each | f16 step | f16 least | 32 codes of b bits |                 both: 3 or 5 bits a value
#include <algorithm>
#include <cmath>

#include "base/half.h"
#include "codec/codec.h"
#include "codec/rows.h"

namespace swivel {
namespace {

constexpr int kBlock = 32;
constexpr size_t kHeader = 4;  // step and least
constexpr float kLargestHalf = 65504.0f;

// The largest half that is not above x, for |x| <= kLargestHalf.
uint16_t HalfBelow(float x) {
  const uint16_t half = F16FromF32(x);
  if (F32FromF16(half) <= x) return half == 0x8000 ? uint16_t{0} : half;
  return static_cast<uint16_t>((half & 0x8000) != 0 ? half + 1 : half - 1);
}

// The smallest half that is not below x, for 0 <= x < kLargestHalf.
uint16_t HalfAbove(float x) {
  const uint16_t half = F16FromF32(x + 0.0f);  // no negative zero
  return static_cast<uint16_t>(F32FromF16(half) < x ? half + 1 : half);
}

bool IsInRange(const float* row, int width) {
  return std::all_of(row, row + width, [](float x) { return std::fabs(x) <= kLargestHalf; });  // false for NaN
}

// What the values of a block share.
template <int kBits>
struct Grid {
  static constexpr int kLast = (1 << kBits) - 1;
  float step = 0.0f, least = 0.0f;

  // Writes the grid of values between `low` and `high` and returns it as it was rounded.
  static Grid Choose(float low, float high, uint8_t* header) {
    const uint16_t least = HalfBelow(low);
    PutU16(header, HalfAbove((high - F32FromF16(least)) / kLast));
    PutU16(header + 2, least);
    return Read(header);
  }
  static Grid Read(const uint8_t* header) { return {F32FromF16(GetU16(header)), F32FromF16(GetU16(header + 2))}; }

  // Within half a step of a level. The difference is exact enough: a float has 13 bits more than a half.
  bool Holds(float x) const { return x >= least - 0.5f * step && x <= least + (kLast + 0.5f) * step; }
  int Code(float x) const {
    return step > 0.0f ? static_cast<int>(std::clamp(std::floor((x - least) / step + 0.5f), 0.0f, static_cast<float>(kLast))) : 0;
  }
  // The product has at most 15 bits, so it is exact and a fused multiplication gives the same.
  float Value(int code) const { return least + static_cast<float>(code) * step; }
};

template <int kBits>
constexpr size_t RowBytes(int width) {
  return static_cast<size_t>(width) / kBlock * (kHeader + kBlock * kBits / 8);
}

template <int kBits>
size_t GroupBytes(int width) {
  return kGroupTokens * RowBytes<kBits>(width);
}

template <int kBits>
void EncodeValue(const float* row, int width, uint8_t* at) {
  for (int begin = 0; begin < width; begin += kBlock, at += RowBytes<kBits>(kBlock)) {
    const auto [low, high] = std::minmax_element(row + begin, row + begin + kBlock);
    const auto grid = Grid<kBits>::Choose(*low, *high, at);
    for (int i = 0; i < kBlock; ++i) PutBits(at + kHeader, i * kBits, kBits, grid.Code(row[begin + i]));
  }
}

// The part of a group that holds key `token`: its grids, then its codes.
template <int kBits>
size_t PartOffset(int token, int width) {
  return static_cast<size_t>(token / kBlock) * kBlock * RowBytes<kBits>(width);
}

template <int kBits>
size_t KeyCodesOffset(int token, int width) {
  return kHeader * static_cast<size_t>(width) + static_cast<size_t>(token % kBlock) * width * kBits / 8;
}

// One part of 32 keys. `rows` are those of the whole group.
template <int kBits>
TokenMask EncodeKeyPart(const float* rows, size_t row_stride, TokenMask tokens, bool has_grids, int first, int width, uint8_t* part) {
  TokenMask failed;
  float low[kMaxHeadWidth] = {}, high[kMaxHeadWidth] = {};
  bool any = false;
  for (int token = first; token < first + kBlock; ++token) {
    if (!tokens.Has(token)) continue;
    const float* row = rows + token * row_stride;
    if (!IsInRange(row, width)) {
      failed.Add(token);
      continue;
    }
    for (int i = 0; i < width; ++i) {
      low[i] = any ? std::min(low[i], row[i]) : row[i];
      high[i] = any ? std::max(high[i], row[i]) : row[i];
    }
    any = true;
  }
  if (!any) return failed;

  Grid<kBits> grids[kMaxHeadWidth];
  for (int i = 0; i < width; ++i) {
    uint8_t* header = part + kHeader * static_cast<size_t>(i);
    grids[i] = has_grids ? Grid<kBits>::Read(header) : Grid<kBits>::Choose(low[i], high[i], header);
  }
  for (int token = first; token < first + kBlock; ++token) {
    if (!tokens.Has(token) || failed.Has(token)) continue;
    const float* row = rows + token * row_stride;
    bool fits = true;
    for (int i = 0; has_grids && i < width; ++i) fits = fits && grids[i].Holds(row[i]);
    if (!fits) {
      failed.Add(token);
      continue;
    }
    uint8_t* codes = part + KeyCodesOffset<kBits>(token, width);
    for (int i = 0; i < width; ++i) PutBits(codes, i * kBits, kBits, grids[i].Code(row[i]));
  }
  return failed;
}

template <int kBits>
TokenMask EncodeGroup(const float* rows, size_t row_stride, TokenMask tokens, TokenMask packed, int width, Side side, uint8_t* group) {
  TokenMask failed;
  if (side == Side::kKey) {
    packed = packed & ~tokens;
    for (int first = 0; first < kGroupTokens; first += kBlock) {
      const bool has_grids = (packed & TokenMask::First(first + kBlock) & ~TokenMask::First(first)).Any();
      failed = failed | EncodeKeyPart<kBits>(rows, row_stride, tokens, has_grids, first, width, group + PartOffset<kBits>(first, width));
    }
    return failed;
  }
  for (int token = 0; token < kGroupTokens; ++token) {
    if (!tokens.Has(token)) continue;
    const float* row = rows + token * row_stride;
    if (IsInRange(row, width)) {
      EncodeValue<kBits>(row, width, group + token * RowBytes<kBits>(width));
    } else {
      failed.Add(token);
    }
  }
  return failed;
}

template <int kBits>
void Decode(const uint8_t* group, int width, Side side, int token, float* row) {
  if (side == Side::kKey) {
    const uint8_t* part = group + PartOffset<kBits>(token, width);
    const uint8_t* codes = part + KeyCodesOffset<kBits>(token, width);
    for (int i = 0; i < width; ++i) row[i] = Grid<kBits>::Read(part + kHeader * static_cast<size_t>(i)).Value(GetBits(codes, i * kBits, kBits));
    return;
  }
  const uint8_t* at = group + token * RowBytes<kBits>(width);
  for (int begin = 0; begin < width; begin += kBlock, at += RowBytes<kBits>(kBlock)) {
    const auto grid = Grid<kBits>::Read(at);
    for (int i = 0; i < kBlock; ++i) row[begin + i] = grid.Value(GetBits(at + kHeader, i * kBits, kBits));
  }
}

template <int kBits>
constexpr Codec MakeKivi(CodecId id, const char* name, const char* summary) {
  Codec codec = {id,
                 name,
                 summary,
                 Frame::kNone,
                 Frame::kNone,
                 Layout::kBlocks,
                 kBits,
                 kBlock,
                 /*has_scale_mode=*/false,
                 nullptr,
                 nullptr,
                 &GroupBytes<kBits>,
                 nullptr,
                 &Decode<kBits>,
                 nullptr};
  codec.encode_group = &EncodeGroup<kBits>;
  return codec;
}

}  // namespace

extern const Codec kKivi2Codec = MakeKivi<2>(CodecId::kKivi2, "kivi2", "KIVI: 2 bits between minimum and maximum, K by channel, V by token");
extern const Codec kKivi4Codec = MakeKivi<4>(CodecId::kKivi4, "kivi4", "KIVI: 4 bits between minimum and maximum, K by channel, V by token");

}  // namespace swivel
