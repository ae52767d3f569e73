// f16 and bf16: uncompressed baselines.
//
// Layout: keys in tiles of 16 tokens, [tile][coordinate][16 tokens], so that a vector holds one coordinate of 16 tokens; values as rows,
// [token][coordinate]. Two bytes a value, little endian.
#include <cstring>

#include "base/half.h"
#include "codec/codec.h"

namespace swivel {
namespace {

size_t GroupBytes(int width) { return static_cast<size_t>(kGroupTokens) * width * 2; }

size_t Offset(int width, Side side, int token, int coordinate) {
  if (side == Side::kValue) return 2 * (static_cast<size_t>(token) * width + coordinate);
  return 2 * ((static_cast<size_t>(token / 16) * width + coordinate) * 16 + token % 16);
}

template <uint16_t (*kFromF32)(float)>
void Encode(const float* row, int width, Side side, ScaleMode, uint8_t* group, int token) {
  for (int i = 0; i < width; ++i) {
    const uint16_t half = kFromF32(row[i]);
    uint8_t* at = group + Offset(width, side, token, i);
    at[0] = static_cast<uint8_t>(half & 0xff);
    at[1] = static_cast<uint8_t>(half >> 8);
  }
}

template <float (*kToF32)(uint16_t)>
void Decode(const uint8_t* group, int width, Side side, int token, float* row) {
  for (int i = 0; i < width; ++i) {
    const uint8_t* at = group + Offset(width, side, token, i);
    row[i] = kToF32(static_cast<uint16_t>(at[0] | at[1] << 8));
  }
}

void CopyRow(const uint8_t* from_group, int from_token, int width, Side side, uint8_t* to_group, int to_token) {
  for (int i = 0; i < width; ++i) std::memcpy(to_group + Offset(width, side, to_token, i), from_group + Offset(width, side, from_token, i), 2);
}

}  // namespace

extern const Codec kF16Codec = {CodecId::kF16, "f16", "IEEE half, the uncompressed cache", Frame::kNone, Frame::kNone, Layout::kF16, 16, 16,
                                false, nullptr, nullptr, &GroupBytes, &Encode<F16FromF32>, &Decode<F32FromF16>, &CopyRow};
extern const Codec kBf16Codec = {CodecId::kBf16, "bf16", "bfloat16", Frame::kNone, Frame::kNone, Layout::kBf16, 16, 16,
                                 false, nullptr, nullptr, &GroupBytes, &Encode<Bf16FromF32>, &Decode<F32FromBf16>, &CopyRow};

}  // namespace swivel
