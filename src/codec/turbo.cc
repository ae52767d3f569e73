// Table codes: an orthogonal frame, Lloyd-Max levels, one scale a row.
//
//   y = R x,   t = y sqrt(width) / ||y||,   code_i = nearest Lloyd-Max level of t_i,   x^ = s R^T c
// with the scale s of ScaleMode (DRIVE, EDEN). The order of every sum is part of the specification: see Sum16.
//
// turbo2, turbo3, turbo4: TurboQuant_mse (arXiv 2504.19874, Algorithm 1), R = signs and Walsh-Hadamard.
// planar, iso, rotor: the same codes behind rotations of blocks of 2, 4 and 3 neighbours (docs/block_rotations.md), for comparison.
#include "codec/turbo.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/half.h"
#include "codec/codec.h"
#include "codec/plane_rows.h"
#include "math/codebook.h"
#include "math/lane_sum.h"

namespace swivel {
namespace {

template <int kBits>
constexpr const IntegerBooks* IntegerLevels() {
  if constexpr (kBits == 2) return &kLloydMax2Books;
  if constexpr (kBits == 3) return &kLloydMax3Books;
  return &kLloydMax4Books;
}

template <int kBits>
void EncodeInFrame(Frame frame, const float* row, int width, Side side, ScaleMode mode, uint8_t* group, int token) {
  float y[kMaxHeadWidth];
  const LoadedRow loaded = LoadRow(frame, row, width, y);
  if (loaded.is_flat) return SetFlatRow<kBits>(group, width, side, token, loaded.flat_scale);
  uint8_t codes[kMaxHeadWidth];
  const CodeSums sums = NearestLevels(LloydMax(kBits), y, width, codes);
  for (int i = 0; i < width; ++i) SetCode<kBits>(group, width, side, token, i, codes[i]);
  SetPlaneScale(group, kBits, width, token, RowScale(mode, sums, loaded.exponent));
}

template <int kBits, Frame kFrame>
void Encode(const float* row, int width, Side side, ScaleMode mode, uint8_t* group, int token) {
  EncodeInFrame<kBits>(kFrame, row, width, side, mode, group, token);
}

template <int kBits>
void DecodeInFrame(const uint8_t* group, int width, Side side, int token, float* row) {
  DecodePlaneRow<kBits>(LloydMax(kBits).data(), group, width, side, token, row);
}

template <int kBits, Frame kFrame>
constexpr Codec MakeTable(CodecId id, const char* name, const char* summary) {
  return {id,
          name,
          summary,
          kFrame,
          kFrame,
          Layout::kPlanes,
          kBits,
          16,
          true,
          LloydMax(kBits).data(),
          IntegerLevels<kBits>(),
          &PlaneGroupBytes<kBits>,
          &Encode<kBits, kFrame>,
          &DecodeInFrame<kBits>,
          &CopyPlaneRow<kBits>};
}

}  // namespace

int RowExponent(float largest) { return std::max(std::ilogb(largest), -126); }

float PowerOfTwo(int exponent) { return std::ldexp(1.0f, exponent); }

LoadedRow LoadRow(Frame frame, const float* row, int width, float* y) {
  float largest = 0.0f;
  bool finite = true;
  for (int i = 0; i < width; ++i) {
    finite = finite && std::isfinite(row[i]);
    largest = std::max(largest, std::fabs(row[i]));
  }
  if (!finite || largest == 0.0f) return {true, finite ? uint16_t{0} : kScaleNan, 0};
  // A power of two keeps every sum in range for any finite row, exactly.
  const int exponent = RowExponent(largest);
  const float down = PowerOfTwo(-exponent);
  for (int i = 0; i < width; ++i) y[i] = row[i] * down;
  Rotate(frame, y, width);
  return {false, 0, exponent};
}

CodeSums NearestLevels(std::span<const float> levels, const float* y, int width, uint8_t* codes) {
  const auto sum = [width](auto term) {
    if (width % 16 == 0) return Sum16(width, term);
    return Sum16((width + 15) / 16 * 16, [&](int i) { return i < width ? term(i) : 0.0f; });
  };
  CodeSums sums;
  sums.norm2 = sum([y](int i) { return y[i] * y[i]; });
  const float to_unit = std::sqrt(static_cast<float>(width) / sums.norm2);
  float c[kMaxHeadWidth];
  for (int i = 0; i < width; ++i) {
    const float t = y[i] * to_unit;
    int code = 0;
    for (size_t j = 0; j + 1 < levels.size(); ++j) code += t >= Threshold(levels[j], levels[j + 1]);
    codes[i] = static_cast<uint8_t>(code);
    c[i] = levels[code];
  }
  sums.code_norm2 = sum([&c](int i) { return c[i] * c[i]; });
  sums.product = sum([&c, y](int i) { return c[i] * y[i]; });
  return sums;
}

float RowScale(ScaleMode mode, const CodeSums& sums) {
  switch (mode) {
    case ScaleMode::kMatched:
      return std::sqrt(sums.norm2 / sums.code_norm2);
    case ScaleMode::kUnbiased:
      return sums.norm2 / sums.product;
    case ScaleMode::kLeastSquares:
      return sums.product / sums.code_norm2;
  }
  return 0.0f;
}

uint16_t RowScale(ScaleMode mode, const CodeSums& sums, int exponent) {
  return ScaleFromF32(std::min(std::ldexp(RowScale(mode, sums), exponent), std::numeric_limits<float>::max()));
}

uint16_t RmsScale(float norm2, int width, int exponent) {
  return ScaleFromF32(std::ldexp(std::sqrt(norm2 / static_cast<float>(width)), exponent));
}

extern const Codec kTurbo2Codec =
    MakeTable<2, Frame::kSignedHadamard>(CodecId::kTurbo2, "turbo2", "signs + Hadamard, 4 Lloyd-Max levels, one scale a row");
extern const Codec kTurbo3Codec =
    MakeTable<3, Frame::kSignedHadamard>(CodecId::kTurbo3, "turbo3", "signs + Hadamard, 8 Lloyd-Max levels, one scale a row");
extern const Codec kTurbo4Codec =
    MakeTable<4, Frame::kSignedHadamard>(CodecId::kTurbo4, "turbo4", "signs + Hadamard, 16 Lloyd-Max levels, one scale a row");
extern const Codec kPlanar3Codec = MakeTable<3, Frame::kPlanar>(CodecId::kPlanar3, "planar3", "turbo3's codes behind rotations of pairs");
extern const Codec kPlanar4Codec = MakeTable<4, Frame::kPlanar>(CodecId::kPlanar4, "planar4", "turbo4's codes behind rotations of pairs");
extern const Codec kIso3Codec = MakeTable<3, Frame::kIsoFast>(CodecId::kIso3, "iso3", "turbo3's codes behind quaternions, q x");
extern const Codec kIso4Codec = MakeTable<4, Frame::kIsoFast>(CodecId::kIso4, "iso4", "turbo4's codes behind quaternions, q x");
extern const Codec kIso3FullCodec =
    MakeTable<3, Frame::kIsoFull>(CodecId::kIso3Full, "iso3_full", "turbo3's codes behind pairs of quaternions, q x r*");
extern const Codec kIso4FullCodec =
    MakeTable<4, Frame::kIsoFull>(CodecId::kIso4Full, "iso4_full", "turbo4's codes behind pairs of quaternions, q x r*");
extern const Codec kRotor3Codec = MakeTable<3, Frame::kRotor>(CodecId::kRotor3, "rotor3", "turbo3's codes behind rotors of triples");
extern const Codec kRotor4Codec = MakeTable<4, Frame::kRotor>(CodecId::kRotor4, "rotor4", "turbo4's codes behind rotors of triples");

}  // namespace swivel
