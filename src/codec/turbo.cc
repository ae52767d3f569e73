// turbo2, turbo3, turbo4: TurboQuant_mse (arXiv 2504.19874, Algorithm 1) with a Walsh-Hadamard rotation and one scale a row.
//
//   y = R x,   t = y sqrt(width) / ||y||,   code_i = nearest Lloyd-Max level of t_i,   x^ = s R^T c
// with the scale s of ScaleMode (DRIVE, EDEN). The order of every sum is part of the specification: see Sum16.
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
constexpr const float* Levels() {
  if constexpr (kBits == 2) return kLloydMax2.data();
  if constexpr (kBits == 3) return kLloydMax3.data();
  return kLloydMax4.data();
}

template <int kBits>
constexpr const IntegerBooks* IntegerLevels() {
  if constexpr (kBits == 2) return &kLloydMax2Books;
  if constexpr (kBits == 3) return &kLloydMax3Books;
  return &kLloydMax4Books;
}

template <int kBits>
void Encode(const float* row, int width, Side side, ScaleMode mode, uint8_t* group, int token) {
  const float* levels = Levels<kBits>();
  float y[kMaxHeadWidth];
  const LoadedRow loaded = LoadRow(Frame::kSignedHadamard, row, width, y);
  if (loaded.is_flat) return SetFlatRow<kBits>(group, width, side, token, loaded.flat_scale);

  const float norm2 = Sum16(width, [&](int i) { return y[i] * y[i]; });
  const float to_unit = std::sqrt(static_cast<float>(width) / norm2);
  float c[kMaxHeadWidth];
  for (int i = 0; i < width; ++i) {
    const float t = y[i] * to_unit;
    int code = 0;
    for (int j = 0; j + 1 < (1 << kBits); ++j) code += t >= Threshold(levels[j], levels[j + 1]);
    SetCode<kBits>(group, width, side, token, i, code);
    c[i] = levels[code];
  }
  const float code_norm2 = Sum16(width, [&](int i) { return c[i] * c[i]; });
  const float product = Sum16(width, [&](int i) { return c[i] * y[i]; });
  SetPlaneScale(group, kBits, width, token, RowScale(mode, norm2, code_norm2, product, loaded.exponent));
}

template <int kBits>
void DecodeInFrame(const uint8_t* group, int width, Side side, int token, float* row) {
  DecodePlaneRow<kBits>(Levels<kBits>(), group, width, side, token, row);
}

template <int kBits>
constexpr Codec MakeTurbo(CodecId id, const char* name, const char* summary) {
  return {id,
          name,
          summary,
          Frame::kSignedHadamard,
          Frame::kSignedHadamard,
          Layout::kPlanes,
          kBits,
          16,
          true,
          Levels<kBits>(),
          IntegerLevels<kBits>(),
          &PlaneGroupBytes<kBits>,
          &Encode<kBits>,
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

uint16_t RowScale(ScaleMode mode, float norm2, float code_norm2, float product, int exponent) {
  float scale = 0.0f;
  switch (mode) {
    case ScaleMode::kMatched:
      scale = std::sqrt(norm2 / code_norm2);
      break;
    case ScaleMode::kUnbiased:
      scale = norm2 / product;
      break;
    case ScaleMode::kLeastSquares:
      scale = product / code_norm2;
      break;
  }
  return ScaleFromF32(std::min(std::ldexp(scale, exponent), std::numeric_limits<float>::max()));
}

extern const Codec kTurbo2Codec = MakeTurbo<2>(CodecId::kTurbo2, "turbo2", "signs + Hadamard, 4 Lloyd-Max levels, one scale a row");
extern const Codec kTurbo3Codec = MakeTurbo<3>(CodecId::kTurbo3, "turbo3", "signs + Hadamard, 8 Lloyd-Max levels, one scale a row");
extern const Codec kTurbo4Codec = MakeTurbo<4>(CodecId::kTurbo4, "turbo4", "signs + Hadamard, 16 Lloyd-Max levels, one scale a row");

}  // namespace swivel
