// turboprod2..4 and turboprod2_orth..4_orth: TurboQuant_prod (arXiv 2504.19874, Algorithm 2).
//
//   y = R x,  y~ = ||y|| / sqrt(w) * the nearest Lloyd-Max level of b - 1 bits,  r = y - y~
//   stored: codes, ||y||, sign(S r), ||r||;   keys decode to y~ + ||r|| / (w E|<s,u>|) S^T sign(S r)
// whose products with R q are the paper's unbiased estimates; values decode to y~ alone, the part with the small error. S is Gaussian as
// in the paper, or orthogonal with its own constant (a quarter to a third of the variance). Measured and kept for the record: at equal
// bits turbo has several times less variance (docs/numerics.md).
//
// Row: | ||y|| / sqrt(w), e8m8 | ||r|| / sqrt(w), e8m8 | w codes of b - 1 bits | w signs |.
#include <cmath>

#include "codec/codec.h"
#include "codec/qjl.h"
#include "codec/rows.h"
#include "codec/turbo.h"
#include "math/codebook.h"
#include "math/lane_sum.h"

namespace swivel {
namespace {

template <int kBits>
constexpr size_t RowBytes(int width) {
  return 4 + static_cast<size_t>(width) / 8 * kBits;
}

template <int kBits>
constexpr size_t SignsOffset(int width) {
  return 4 + static_cast<size_t>(width) / 8 * (kBits - 1);
}

template <int kBits, Projection kProjection>
void Encode(const float* row, int width, Side, ScaleMode, uint8_t* group, int token) {
  constexpr int kCodeBits = kBits - 1;
  const std::span<const float> levels = LloydMax(kCodeBits);
  uint8_t* at = group + token * RowBytes<kBits>(width);
  float y[kMaxHeadWidth];
  const LoadedRow loaded = LoadRow(Frame::kSignedHadamard, row, width, y);
  if (loaded.is_flat) {
    std::memset(at, 0xff, RowBytes<kBits>(width));
    PutScale(at, loaded.flat_scale);
    PutScale(at + 2, loaded.flat_scale);
    return;
  }
  uint8_t codes[kMaxHeadWidth];
  const uint16_t scale = RmsScale(NearestLevels(levels, y, width, codes).norm2, width, loaded.exponent);
  PutScale(at, scale);
  // The residual of what decoding gives, the rounding of the norm included: the sum of both parts is then unbiased.
  const float unit = std::ldexp(F32FromScale(scale), -loaded.exponent);
  for (int i = 0; i < width; ++i) {
    PutBits(at + 4, kCodeBits * i, kCodeBits, codes[i]);
    y[i] -= unit * levels[codes[i]];
  }
  PutScale(at + 2, RmsScale(Dot16(y, y, width), width, loaded.exponent));
  PutSigns(kProjection, y, width, at + SignsOffset<kBits>(width));
}

template <int kBits, Projection kProjection>
void DecodeInFrame(const uint8_t* group, int width, Side side, int token, float* row) {
  constexpr int kCodeBits = kBits - 1;
  const uint8_t* at = group + token * RowBytes<kBits>(width);
  const float scale = GetScale(at);
  const float residual_scale = GetScale(at + 2);
  if (side == Side::kKey) SumSigns(kProjection, at + SignsOffset<kBits>(width), width, row);
  for (int i = 0; i < width; ++i) {
    const float coded = scale * LloydMax(kCodeBits)[GetBits(at + 4, kCodeBits * i, kCodeBits)];
    row[i] = side == Side::kKey ? coded + residual_scale * row[i] : coded;
  }
}

template <int kBits, Projection kProjection>
constexpr Codec MakeTurboProd(CodecId id, const char* name, const char* summary) {
  return MakeRows<RowBytes<kBits>>(id, name, summary, Frame::kSignedHadamard, kBits, 16, /*has_scale_mode=*/false, &Encode<kBits, kProjection>,
                                   &DecodeInFrame<kBits, kProjection>);
}

}  // namespace

extern const Codec kTurboProd2Codec = MakeTurboProd<2, Projection::kGaussian>(
    CodecId::kTurboProd2, "turboprod2", "TurboQuant_prod: 1-bit codes, then QJL of the residual for keys");
extern const Codec kTurboProd3Codec = MakeTurboProd<3, Projection::kGaussian>(
    CodecId::kTurboProd3, "turboprod3", "TurboQuant_prod: 2-bit codes, then QJL of the residual for keys");
extern const Codec kTurboProd4Codec = MakeTurboProd<4, Projection::kGaussian>(
    CodecId::kTurboProd4, "turboprod4", "TurboQuant_prod: 3-bit codes, then QJL of the residual for keys");
extern const Codec kTurboProd2OrthCodec =
    MakeTurboProd<2, Projection::kOrthogonal>(CodecId::kTurboProd2Orth, "turboprod2_orth", "turboprod2 with an orthogonal projection");
extern const Codec kTurboProd3OrthCodec =
    MakeTurboProd<3, Projection::kOrthogonal>(CodecId::kTurboProd3Orth, "turboprod3_orth", "turboprod3 with an orthogonal projection");
extern const Codec kTurboProd4OrthCodec =
    MakeTurboProd<4, Projection::kOrthogonal>(CodecId::kTurboProd4Orth, "turboprod4_orth", "turboprod4 with an orthogonal projection");

}  // namespace swivel
