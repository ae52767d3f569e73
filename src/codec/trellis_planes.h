// Byte layout of groups of trellis codes (Layout::kTrellis): where the bits of each coordinate are, and in which order the trellis visits
// the coordinates.
//
// As in codec/planes.h a lane of 32 bits is 4 coordinates of a key or 4 tokens of a coordinate of values, and 32 tokens stand together. Each
// 16 coordinates of 32 tokens are a *cell* of `bits` blocks of 64 bytes: the path bits u, then the highest bit of m where R - 1 is odd, then
// the other bits of m as fields of 2 or 4 bits.
//
// A decoder needs the path bits u_(n-1) … u_(n-3) beside u_n. The rotated coordinates have no order of their own, so the trellis visits them
// in one that puts these bits where a kernel has them already:
//   keys     every fourth coordinate, 4 times: u_(n-1) is the same byte of the field before, or of the block before
//   values   every 16th coordinate, 16 times: u_(n-1) is the same bit of the cell before
// Only the first three steps of a pass look elsewhere: at the end of the pass before it, which is the byte (lane) before.
#ifndef SWIVEL_CODEC_TRELLIS_PLANES_H_
#define SWIVEL_CODEC_TRELLIS_PLANES_H_

#include "codec/planes.h"

namespace swivel {

// Passes of the trellis over a row, and its place in the path of a coordinate.
inline constexpr int TrellisPasses(Side side) { return side == Side::kKey ? 4 : 16; }
inline constexpr int TrellisPlace(Side side, int width, int coordinate) {
  const int passes = TrellisPasses(side);
  return coordinate % passes * (width / passes) + coordinate / passes;
}

// m of R bits: the highest of its R - 1 bits on its own where that number is odd, the rest in a field.
inline constexpr int TrellisHighBits(int bits) { return (bits - 1) % 2; }
inline constexpr int TrellisFieldBits(int bits) { return (bits - 1) / 2 * 2; }

inline constexpr size_t TrellisCell(int bits, int width, int token, int coordinate) {
  return static_cast<size_t>(token / 32) * Bytes32(bits, width) + static_cast<size_t>(coordinate / 16) * 64 * bits;
}

// The byte of a block's 64 that holds a coordinate of a token.
inline constexpr int TrellisLaneByte(Side side, int token, int coordinate) {
  return side == Side::kKey ? 4 * (token % 16) + coordinate % 4 : 4 * (coordinate % 16) + token % 4;
}

// A plane of single bits, the plane `plane` of the cell: 0 holds u, 1 the high bit of m.
inline constexpr Field TrellisBit(Side side, int bits, int width, int token, int coordinate, int plane) {
  const int shift = side == Side::kKey ? 4 * (token / 16 % 2) + coordinate % 16 / 4 : token % 32 / 4;
  return {TrellisCell(bits, width, token, coordinate) + 64 * plane + TrellisLaneByte(side, token, coordinate), shift};
}

// The field of m. Keys: the blocks of the first tile of 16 tokens, then those of the second. Values: tokens in order.
inline constexpr Field TrellisField(Side side, int bits, int width, int token, int coordinate) {
  const int field = TrellisFieldBits(bits);
  const int quads = 8 / field;  // fields a byte
  const int quad = side == Side::kKey ? 4 * (token / 16 % 2) + coordinate % 16 / 4 : token % 32 / 4;
  const int block = 1 + TrellisHighBits(bits) + quad / quads;
  return {TrellisCell(bits, width, token, coordinate) + 64 * block + TrellisLaneByte(side, token, coordinate), quad % quads * field};
}

}  // namespace swivel

#endif  // SWIVEL_CODEC_TRELLIS_PLANES_H_
