// Layout::kRows: the bytes of a row stand together, rows one after the other. For codecs that no kernel reads.
#ifndef SWIVEL_CODEC_ROWS_H_
#define SWIVEL_CODEC_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/half.h"
#include "codec/codec.h"

namespace swivel {

// Fields of a row packed without gaps: field i of `bits` bits (at most 8) holds bits [i * bits, (i + 1) * bits) of a stream whose bit n is
// bit n % 8 of byte n / 8.
inline void PutBits(uint8_t* stream, int first_bit, int bits, int value) {
  uint8_t* at = stream + first_bit / 8;
  const int shift = first_bit % 8;
  const int mask = ((1 << bits) - 1) << shift;
  const int placed = value << shift & mask;
  at[0] = static_cast<uint8_t>((at[0] & ~mask) | placed);
  if (shift + bits > 8) at[1] = static_cast<uint8_t>((at[1] & ~(mask >> 8)) | placed >> 8);
}

inline int GetBits(const uint8_t* stream, int first_bit, int bits) {
  const uint8_t* at = stream + first_bit / 8;
  const int shift = first_bit % 8;
  const int word = shift + bits > 8 ? at[0] | at[1] << 8 : at[0];
  return word >> shift & ((1 << bits) - 1);
}

inline void PutU16(uint8_t* at, uint16_t value) {
  at[0] = static_cast<uint8_t>(value & 0xff);
  at[1] = static_cast<uint8_t>(value >> 8);
}
inline uint16_t GetU16(const uint8_t* at) { return static_cast<uint16_t>(at[0] | at[1] << 8); }

inline void PutScale(uint8_t* at, uint16_t scale) { PutU16(at, scale); }
inline float GetScale(const uint8_t* at) { return F32FromScale(GetU16(at)); }

// The functions of a kRows codec that need to know nothing but the size of a row.
template <size_t (*kRowBytes)(int width)>
size_t RowsGroupBytes(int width) {
  return kGroupTokens * kRowBytes(width);
}

template <size_t (*kRowBytes)(int width)>
void CopyRowBytes(const uint8_t* from_group, int from_token, int width, Side, uint8_t* to_group, int to_token) {
  const size_t bytes = kRowBytes(width);
  std::memmove(to_group + to_token * bytes, from_group + from_token * bytes, bytes);
}

// A codec of rows: what is the same for all of them filled in.
template <size_t (*kRowBytes)(int width)>
constexpr Codec MakeRows(CodecId id, const char* name, const char* summary, Frame frame, int bits, int width_multiple, bool has_scale_mode,
                         decltype(Codec::encode) encode, decltype(Codec::decode_in_frame) decode_in_frame) {
  return {id,
          name,
          summary,
          frame,
          frame,
          Layout::kRows,
          bits,
          width_multiple,
          has_scale_mode,
          nullptr,
          nullptr,
          &RowsGroupBytes<kRowBytes>,
          encode,
          decode_in_frame,
          &CopyRowBytes<kRowBytes>};
}

}  // namespace swivel

#endif  // SWIVEL_CODEC_ROWS_H_
