// polar: PolarQuant (arXiv 2502.02617), four levels of angles over blocks of 16 coordinates, 4 + 2 + 2 + 2 bits.
//
//   y = R x;  of each block: 8 angles of 4 bits, 4 + 2 + 1 angles of 2 bits, and the radius: 46 + 16 = 62 bits for 16 values
// Decoding walks down from the radius r: the pair below is (r cos psi, r sin psi). The radius is kept exactly, the angles by the books of
// math/polar.h. (Several projects call norm + rotation + scalar codebook "PolarQuant"; that is turbo.)
//
// Row: | w/16 radii / 4, e8m8 | 46 bits a block: 8 x 4 of level 1, 4 x 2 of level 2, 2 x 2, 2; no gaps between blocks | zero bits up to a
// byte |. A radius over 4 is the root mean square of its block: it cannot overflow where y does not.
#include "math/polar.h"

#include <algorithm>
#include <cmath>

#include "codec/codec.h"
#include "codec/rows.h"
#include "codec/turbo.h"

namespace swivel {
namespace {

constexpr int kAngleBits = 46;
constexpr float kRootBlock = 4.0f;  // sqrt(16)

constexpr size_t RadiiBytes(int width) { return 2 * static_cast<size_t>(width) / kPolarBlock; }
constexpr size_t RowBytes(int width) { return RadiiBytes(width) + (static_cast<size_t>(width) / kPolarBlock * kAngleBits + 7) / 8; }

// Writes the angles of one block and returns its radius.
float EncodeBlock(const float* y, uint8_t* angles, int bit) {
  float radius[kPolarBlock / 2];
  for (int j = 0; j < 8; ++j, bit += 4) {
    PutBits(angles, bit, 4, SectorOf(y[2 * j], y[2 * j + 1]));
    radius[j] = Radius(y[2 * j], y[2 * j + 1]);
  }
  for (int level = 2, pairs = 4; level <= kPolarLevels; ++level, pairs /= 2) {
    for (int j = 0; j < pairs; ++j, bit += 2) {
      PutBits(angles, bit, 2, PolarCode(kPolarBooks[level - 2], radius[2 * j], radius[2 * j + 1]));
      radius[j] = Radius(radius[2 * j], radius[2 * j + 1]);
    }
  }
  return radius[0];
}

// The block of radius `radius` that the angles stand for.
void DecodeBlock(const uint8_t* angles, int bit, float radius, float* y) {
  float parts[kPolarBlock / 2] = {radius};
  for (int level = kPolarLevels, pairs = 1; level >= 2; --level, pairs *= 2) {
    // Level 4 starts at bit 44, level 3 at 40, level 2 at 32.
    const int first = bit + kAngleBits + 2 - 4 * pairs;
    const std::array<float, 4>& cosines = kPolarBooks[level - 2].cosines;
    for (int j = pairs - 1; j >= 0; --j) {
      const int code = GetBits(angles, first + 2 * j, 2);
      const float r = parts[j];
      parts[2 * j] = r * cosines[code];
      parts[2 * j + 1] = r * cosines[3 - code];
    }
  }
  for (int j = 0; j < 8; ++j) {
    float x, z;
    SectorDirection(GetBits(angles, bit + 4 * j, 4), &x, &z);
    y[2 * j] = parts[j] * x;
    y[2 * j + 1] = parts[j] * z;
  }
}

void Encode(const float* row, int width, Side, ScaleMode, uint8_t* group, int token) {
  uint8_t* at = group + token * RowBytes(width);
  uint8_t* angles = at + RadiiBytes(width);
  std::fill(angles, at + RowBytes(width), uint8_t{0});
  float y[kMaxHeadWidth];
  const LoadedRow loaded = LoadRow(Frame::kSignedHadamard, row, width, y);
  for (int block = 0; block < width / kPolarBlock; ++block) {
    uint16_t radius = loaded.flat_scale;
    if (!loaded.is_flat) {
      const float r = EncodeBlock(y + block * kPolarBlock, angles, block * kAngleBits);
      radius = ScaleFromF32(std::ldexp(r / kRootBlock, loaded.exponent));  // beyond a float: NaN, visibly damaged
    }
    PutScale(at + 2 * block, radius);
  }
}

void DecodeInFrame(const uint8_t* group, int width, Side, int token, float* row) {
  const uint8_t* at = group + token * RowBytes(width);
  for (int block = 0; block < width / kPolarBlock; ++block) {
    float* y = row + block * kPolarBlock;
    DecodeBlock(at + RadiiBytes(width), block * kAngleBits, kRootBlock, y);
    const float rms = GetScale(at + 2 * block);
    for (int i = 0; i < kPolarBlock; ++i) y[i] *= rms;
  }
}

}  // namespace

extern const Codec kPolarCodec = MakeRows<RowBytes>(CodecId::kPolar, "polar", "PolarQuant: 15 angles and a radius for 16 rotated values",
                                                    Frame::kSignedHadamard, 4, 16, /*has_scale_mode=*/false, &Encode, &DecodeInFrame);

}  // namespace swivel
