// q8_0 and q4_0 as ggml defines them (blocks of 32 values, one f16 scale), plain and behind the Hadamard rotation that llama.cpp applies.
//
// Layout: rows of ggml blocks, [token][block]. Bytes equal ggml's reference quantisers for finite rows; a block with a NaN or an
// infinity gets the scale NaN (ggml leaves that case undefined).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "codec/codec.h"

namespace swivel {
namespace {

constexpr int kBlock = 32;
constexpr uint16_t kF16Nan = 0x7e00;

struct BlockQ8 {
  uint8_t scale[2];
  int8_t code[kBlock];
};
struct BlockQ4 {
  uint8_t scale[2];
  uint8_t code[kBlock / 2];  // value i in the low nibble of byte i, value i + 16 in its high nibble; offset by 8
};
static_assert(sizeof(BlockQ8) == 34 && sizeof(BlockQ4) == 18);

void PutScale(uint8_t* at, uint16_t half) {
  at[0] = static_cast<uint8_t>(half & 0xff);
  at[1] = static_cast<uint8_t>(half >> 8);
}
float GetScale(const uint8_t* at) { return F32FromF16(static_cast<uint16_t>(at[0] | at[1] << 8)); }

// 1 / step, or 0 where that is no number: below 2^-128 the f16 scale is 0 anyway, and 0 * infinity would be cast to an integer
// (undefined in ggml too).
float Inverse(float step) {
  const float inverse = 1.0f / step;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

bool AllFinite(const float* x) { return std::all_of(x, x + kBlock, [](float value) { return std::isfinite(value); }); }

void EncodeBlock(const float* x, BlockQ8* block) {
  if (!AllFinite(x)) {
    std::memset(block, 0, sizeof(*block));
    return PutScale(block->scale, kF16Nan);
  }
  float largest = 0.0f;
  for (int i = 0; i < kBlock; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float step = largest / 127.0f;
  const float inverse = Inverse(step);
  PutScale(block->scale, F16FromF32(step));
  for (int i = 0; i < kBlock; ++i) block->code[i] = static_cast<int8_t>(std::clamp(std::round(x[i] * inverse), -127.0f, 127.0f));
}

void DecodeBlock(const BlockQ8& block, float* x) {
  const float step = GetScale(block.scale);
  for (int i = 0; i < kBlock; ++i) x[i] = static_cast<float>(block.code[i]) * step;
}

void EncodeBlock(const float* x, BlockQ4* block) {
  if (!AllFinite(x)) {
    std::memset(block, 0, sizeof(*block));
    return PutScale(block->scale, kF16Nan);
  }
  float extreme = 0.0f;  // the value of largest magnitude, with its sign: it becomes code -8 exactly
  for (int i = 0; i < kBlock; ++i) {
    if (std::fabs(extreme) < std::fabs(x[i])) extreme = x[i];
  }
  const float step = extreme / -8.0f;
  const float inverse = Inverse(step);
  PutScale(block->scale, F16FromF32(step));
  const auto code = [&](int i) { return static_cast<uint8_t>(std::clamp(x[i] * inverse + 8.5f, 0.0f, 15.0f)); };
  for (int i = 0; i < kBlock / 2; ++i) block->code[i] = static_cast<uint8_t>(code(i) | code(i + kBlock / 2) << 4);
}

void DecodeBlock(const BlockQ4& block, float* x) {
  const float step = GetScale(block.scale);
  for (int i = 0; i < kBlock / 2; ++i) {
    x[i] = static_cast<float>((block.code[i] & 15) - 8) * step;
    x[i + kBlock / 2] = static_cast<float>((block.code[i] >> 4) - 8) * step;
  }
}

template <class Block>
size_t GroupBytes(int width) {
  return static_cast<size_t>(kGroupTokens) * (width / kBlock) * sizeof(Block);
}

template <class Block, bool kRotated>
void Encode(const float* row, int width, Side side, ScaleMode, uint8_t* group, int token) {
  float rotated[kMaxHeadWidth];
  std::copy_n(row, width, rotated);
  if (kRotated) Rotate(side == Side::kKey ? Frame::kHadamard : Frame::kHadamard64, rotated, width);
  Block* blocks = reinterpret_cast<Block*>(group) + static_cast<size_t>(token) * (width / kBlock);
  for (int b = 0; b < width / kBlock; ++b) EncodeBlock(rotated + b * kBlock, blocks + b);
}

template <class Block>
void Decode(const uint8_t* group, int width, Side, int token, float* row) {
  const Block* blocks = reinterpret_cast<const Block*>(group) + static_cast<size_t>(token) * (width / kBlock);
  for (int b = 0; b < width / kBlock; ++b) DecodeBlock(blocks[b], row + b * kBlock);
}

template <class Block>
void CopyRow(const uint8_t* from_group, int from_token, int width, Side, uint8_t* to_group, int to_token) {
  const size_t row_bytes = static_cast<size_t>(width / kBlock) * sizeof(Block);
  std::memmove(to_group + to_token * row_bytes, from_group + from_token * row_bytes, row_bytes);
}

template <class Block, bool kRotated>
constexpr Codec MakeBlock32(CodecId id, const char* name, const char* summary, Layout layout, int bits) {
  return {id,
          name,
          summary,
          kRotated ? Frame::kHadamard : Frame::kNone,
          kRotated ? Frame::kHadamard64 : Frame::kNone,
          layout,
          bits,
          kRotated ? 64 : kBlock,
          false,
          nullptr,
          nullptr,
          &GroupBytes<Block>,
          &Encode<Block, kRotated>,
          &Decode<Block>,
          &CopyRow<Block>};
}

}  // namespace

extern const Codec kQ8_0Codec =
    MakeBlock32<BlockQ8, false>(CodecId::kQ8_0, "q8_0", "ggml's 8-bit blocks of 32, not rotated", Layout::kQ8_0, 8);
extern const Codec kQ8_0RotCodec =
    MakeBlock32<BlockQ8, true>(CodecId::kQ8_0Rot, "q8_0_rot", "q8_0 behind llama.cpp's Hadamard rotation", Layout::kQ8_0, 8);
extern const Codec kQ4_0Codec =
    MakeBlock32<BlockQ4, false>(CodecId::kQ4_0, "q4_0", "ggml's 4-bit blocks of 32, not rotated", Layout::kQ4_0, 4);
extern const Codec kQ4_0RotCodec =
    MakeBlock32<BlockQ4, true>(CodecId::kQ4_0Rot, "q4_0_rot", "q4_0 behind llama.cpp's Hadamard rotation", Layout::kQ4_0, 4);

}  // namespace swivel
