// Scalar access to the rows of Layout::kPlanes: one code, one scale, a whole row. planes.h says where the bits are.
#ifndef SWIVEL_CODEC_PLANE_ROWS_H_
#define SWIVEL_CODEC_PLANE_ROWS_H_

#include <cstring>

#include "base/half.h"
#include "codec/planes.h"

namespace swivel {

inline void SetField(uint8_t* group, Field field, int mask, int value) {
  uint8_t& byte = group[field.byte];
  byte = static_cast<uint8_t>((byte & ~(mask << field.shift)) | (value << field.shift));
}

inline int GetField(const uint8_t* group, Field field, int mask) { return (group[field.byte] >> field.shift) & mask; }

template <int kBits>
void SetCode(uint8_t* group, int width, Side side, int token, int coordinate, int code) {
  const bool key = side == Side::kKey;
  const int mask = kBits == 4 ? 15 : 3;
  SetField(group, key ? KeyField(kBits, width, token, coordinate) : ValueField(kBits, width, token, coordinate), mask, code & mask);
  if (kBits == 3) SetField(group, key ? KeyHighBit(width, token, coordinate) : ValueHighBit(width, token, coordinate), 1, code >> 2);
}

template <int kBits>
int GetCode(const uint8_t* group, int width, Side side, int token, int coordinate) {
  const bool key = side == Side::kKey;
  const int mask = kBits == 4 ? 15 : 3;
  const int low = GetField(group, key ? KeyField(kBits, width, token, coordinate) : ValueField(kBits, width, token, coordinate), mask);
  if (kBits != 3) return low;
  return low | GetField(group, key ? KeyHighBit(width, token, coordinate) : ValueHighBit(width, token, coordinate), 1) << 2;
}

inline void SetPlaneScale(uint8_t* group, int bits, int width, int token, uint16_t scale) {
  uint8_t* at = group + ScalesOffset(bits, width) + 2 * token;
  at[0] = static_cast<uint8_t>(scale & 0xff);
  at[1] = static_cast<uint8_t>(scale >> 8);
}

inline float GetPlaneScale(const uint8_t* group, int bits, int width, int token) {
  const uint8_t* at = group + ScalesOffset(bits, width) + 2 * token;
  return F32FromScale(static_cast<uint16_t>(at[0] | at[1] << 8));
}

inline void CopyPlaneScale(const uint8_t* from_group, int from_token, int bits, int width, uint8_t* to_group, int to_token) {
  const size_t scales = ScalesOffset(bits, width);
  std::memmove(to_group + scales + 2 * to_token, from_group + scales + 2 * from_token, 2);
}

// Zeros (scale 0) or a damaged row (scale NaN); both have the code 2^(kBits - 1) everywhere.
template <int kBits>
void SetFlatRow(uint8_t* group, int width, Side side, int token, uint16_t scale) {
  for (int i = 0; i < width; ++i) SetCode<kBits>(group, width, side, token, i, 1 << (kBits - 1));
  SetPlaneScale(group, kBits, width, token, scale);
}

template <int kBits>
void DecodePlaneRow(const float* levels, const uint8_t* group, int width, Side side, int token, float* row) {
  const float scale = GetPlaneScale(group, kBits, width, token);
  for (int i = 0; i < width; ++i) row[i] = levels[GetCode<kBits>(group, width, side, token, i)] * scale;
}

template <int kBits>
void CopyPlaneRow(const uint8_t* from_group, int from_token, int width, Side side, uint8_t* to_group, int to_token) {
  for (int i = 0; i < width; ++i)
    SetCode<kBits>(to_group, width, side, to_token, i, GetCode<kBits>(from_group, width, side, from_token, i));
  CopyPlaneScale(from_group, from_token, kBits, width, to_group, to_token);
}

template <int kBits>
size_t PlaneGroupBytes(int width) {
  return PlanesGroupBytes(kBits, width);
}

}  // namespace swivel

#endif  // SWIVEL_CODEC_PLANE_ROWS_H_
