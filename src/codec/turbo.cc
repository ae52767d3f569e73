// Table codes: an orthogonal frame, Lloyd-Max levels, one scale a row.
//
//   y = R x,   t = y sqrt(width) / ||y||,   code_i = nearest Lloyd-Max level of t_i,   x^ = s R^T c
// with the scale s of ScaleMode (DRIVE, EDEN). The order of every sum is part of the specification: see Sum16.
//
// turbo2, turbo3, turbo4: TurboQuant_mse (arXiv 2504.19874, Algorithm 1), R = signs and Walsh-Hadamard.
// planar, iso, rotor: the same codes behind rotations of blocks of 2, 4 and 3 neighbours (docs/block_rotations.md), for comparison.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/half.h"
#include "codec/codec.h"
#include "codec/planes.h"
#include "codec/turbo.h"
#include "math/codebook.h"

namespace swivel {
namespace {

// Adds term(0) … term(n - 1) in 16 lanes, then the lanes as a tree: the order of a 512-bit register, so that kernels are bit-exact.
template <class Term>
float Sum16(int n, Term term) {
  float lanes[16] = {};
  for (int i = 0; i < n; ++i) lanes[i % 16] += term(i);
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

template <int kBits>
constexpr const float* Levels() {
  if constexpr (kBits == 2) return kLloydMax2.data();
  if constexpr (kBits == 3) return kLloydMax3.data();
  return kLloydMax4.data();
}

template <int kBits>
constexpr const ByteLevels* IntegerLevels() {
  if constexpr (kBits == 2) return &kLloydMax2Bytes;
  if constexpr (kBits == 3) return &kLloydMax3Bytes;
  return &kLloydMax4Bytes;
}

template <int kBits>
void EncodeInFrame(Frame frame, const float* row, int width, Side side, ScaleMode mode, uint8_t* group, int token) {
  float y[kMaxHeadWidth];
  int exponent = 0;
  const RowKind kind = ScaleDown(row, width, y, &exponent);
  if (kind != RowKind::kOrdinary) {
    for (int i = 0; i < width; ++i) SetCode<kBits>(group, width, side, token, i, 1 << (kBits - 1));
    return SetScale(group, kBits, width, token, kind == RowKind::kZero ? uint16_t{0} : kScaleNan);
  }
  Rotate(frame, y, width);
  uint8_t codes[kMaxHeadWidth];
  const CodeSums sums = NearestLevels({Levels<kBits>(), size_t{1} << kBits}, y, width, codes);
  for (int i = 0; i < width; ++i) SetCode<kBits>(group, width, side, token, i, codes[i]);
  SetScale(group, kBits, width, token, RowScale(mode, sums.norm2, sums.code_norm2, sums.product, exponent));
}

template <int kBits, Frame kFrame>
void Encode(const float* row, int width, Side side, ScaleMode mode, uint8_t* group, int token) {
  EncodeInFrame<kBits>(kFrame, row, width, side, mode, group, token);
}

template <int kBits>
void DecodeInFrame(const uint8_t* group, int width, Side side, int token, float* row) {
  const float scale = F32FromScale(GetScale(group, kBits, width, token));
  for (int i = 0; i < width; ++i) row[i] = Levels<kBits>()[GetCode<kBits>(group, width, side, token, i)] * scale;
}

template <int kBits>
void CopyRow(const uint8_t* from_group, int from_token, int width, Side side, uint8_t* to_group, int to_token) {
  for (int i = 0; i < width; ++i) SetCode<kBits>(to_group, width, side, to_token, i, GetCode<kBits>(from_group, width, side, from_token, i));
  SetScale(to_group, kBits, width, to_token, GetScale(from_group, kBits, width, from_token));
}

template <int kBits>
size_t GroupBytes(int width) {
  return PlanesGroupBytes(kBits, width);
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
          Levels<kBits>(),
          IntegerLevels<kBits>(),
          &GroupBytes<kBits>,
          &Encode<kBits, kFrame>,
          &DecodeInFrame<kBits>,
          &CopyRow<kBits>};
}

}  // namespace

int RowExponent(float largest) { return std::max(std::ilogb(largest), -126); }

float PowerOfTwo(int exponent) { return std::ldexp(1.0f, exponent); }

float RowScale(ScaleMode mode, float norm2, float code_norm2, float product) {
  switch (mode) {
    case ScaleMode::kMatched:
      return std::sqrt(norm2 / code_norm2);
    case ScaleMode::kUnbiased:
      return norm2 / product;
    case ScaleMode::kLeastSquares:
      return product / code_norm2;
  }
  return 0.0f;
}

uint16_t RowScale(ScaleMode mode, float norm2, float code_norm2, float product, int exponent) {
  const float scale = RowScale(mode, norm2, code_norm2, product);
  return ScaleFromF32(std::min(std::ldexp(scale, exponent), std::numeric_limits<float>::max()));
}

RowKind ScaleDown(const float* row, int width, float* y, int* exponent) {
  float largest = 0.0f;
  bool finite = true;
  for (int i = 0; i < width; ++i) {
    finite = finite && std::isfinite(row[i]);
    largest = std::max(largest, std::fabs(row[i]));
  }
  if (!finite) return RowKind::kDamaged;
  if (largest == 0.0f) return RowKind::kZero;
  *exponent = RowExponent(largest);
  const float down = PowerOfTwo(-*exponent);
  for (int i = 0; i < width; ++i) y[i] = row[i] * down;
  return RowKind::kOrdinary;
}

CodeSums NearestLevels(std::span<const float> levels, const float* y, int width, uint8_t* codes) {
  CodeSums sums;
  sums.norm2 = Sum16(width, [&](int i) { return y[i] * y[i]; });
  const float to_unit = std::sqrt(static_cast<float>(width) / sums.norm2);
  float c[kMaxHeadWidth];
  for (int i = 0; i < width; ++i) {
    const float t = y[i] * to_unit;
    int code = 0;
    for (size_t j = 0; j + 1 < levels.size(); ++j) code += t >= Threshold(levels[j], levels[j + 1]);
    codes[i] = static_cast<uint8_t>(code);
    c[i] = levels[code];
  }
  sums.code_norm2 = Sum16(width, [&](int i) { return c[i] * c[i]; });
  sums.product = Sum16(width, [&](int i) { return c[i] * y[i]; });
  return sums;
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
