// Byte layout of groups of table codes (Layout::kPlanes): where each code's bits are.
//
// The interleave serves attention kernels (docs/formats.md has pictures). A code of 2 or 4 bits is one field; a code of 3 bits is a
// 2-bit field in the low plane and one bit in the high plane. All offsets are in bytes from the start of the group.
//
// Keys: a 32-bit lane belongs to one token and holds 4 neighbouring coordinates, one a byte, so that a byte dot product sums along the
// coordinates of a token. Tiles of 16 tokens; two tiles (32 tokens) form a pair, whose high planes share bytes.
// Values: the mirror image. A lane belongs to one coordinate and holds 4 neighbouring tokens, one a byte, so that a byte dot product sums
// along tokens. Tiles of 32 tokens.
// Behind the codes stand 128 scales (e8m8, little endian).
#ifndef SWIVEL_CODEC_PLANES_H_
#define SWIVEL_CODEC_PLANES_H_

#include <cstddef>
#include <cstdint>

#include "codec/codec.h"

namespace swivel {

struct Field {
  size_t byte;
  int shift;
};

// Codes of 32 tokens: a pair of key tiles or one value tile.
inline constexpr size_t Bytes32(int bits, int width) { return static_cast<size_t>(width) * 4 * bits; }
inline constexpr size_t ScalesOffset(int bits, int width) { return 4 * Bytes32(bits, width); }
inline constexpr size_t PlanesGroupBytes(int bits, int width) { return ScalesOffset(bits, width) + 2 * kGroupTokens; }

// The low field of a key code: bits 0-3 of a 4-bit code, else bits 0-1.
inline Field KeyField(int bits, int width, int token, int coordinate) {
  const int field_bits = bits == 4 ? 4 : 2;
  const int fields = 8 / field_bits;  // fields a byte; a block of 64 bytes holds 4 * fields coordinates of 16 tokens
  const size_t tile = static_cast<size_t>(token / 32) * Bytes32(bits, width) + static_cast<size_t>(token / 16 % 2) * width * 2 * field_bits;
  const int block = coordinate / (4 * fields);
  const int within = coordinate % (4 * fields);
  return {tile + static_cast<size_t>(block) * 64 + 4 * (token % 16) + within % 4, within / 4 * field_bits};
}

// Bit 2 of a 3-bit key code. One block of 64 bytes holds 16 coordinates of both tiles of the pair.
inline Field KeyHighBit(int width, int token, int coordinate) {
  const size_t plane = static_cast<size_t>(token / 32) * Bytes32(3, width) + static_cast<size_t>(width) * 8;
  return {plane + static_cast<size_t>(coordinate / 16) * 64 + 4 * (token % 16) + coordinate % 4,
          4 * (token / 16 % 2) + coordinate % 16 / 4};
}

// The low field of a value code.
inline Field ValueField(int bits, int width, int token, int coordinate) {
  const int field_bits = bits == 4 ? 4 : 2;
  const int fields = 8 / field_bits;  // fields a byte; a block of 64 bytes holds 16 coordinates of 4 * fields tokens
  const size_t tile = static_cast<size_t>(token / 32) * Bytes32(bits, width) + static_cast<size_t>(coordinate / 16) * 64 * bits;
  const int block = token % 32 / (4 * fields);
  return {tile + static_cast<size_t>(block) * 64 + 4 * (coordinate % 16) + token % 4, token % (4 * fields) / 4 * field_bits};
}

// Bit 2 of a 3-bit value code: one block of 64 bytes holds 16 coordinates of 32 tokens.
inline Field ValueHighBit(int width, int token, int coordinate) {
  const size_t tile = static_cast<size_t>(token / 32) * Bytes32(3, width) + static_cast<size_t>(coordinate / 16) * 64 * 3 + 128;
  return {tile + 4 * (coordinate % 16) + token % 4, token % 32 / 4};
}

}  // namespace swivel

#endif  // SWIVEL_CODEC_PLANES_H_
