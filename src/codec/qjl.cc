// qjl, qjl_orth: one bit a value by the Quantized Johnson-Lindenstrauss transform (arXiv 2406.03482) with as many rows as columns.
//
//   stored: ||k|| and sign(S k);   score(q, k) = ||k|| / (w E|<s,u>|) <S q, sign(S k)>
// The score is unbiased over S. It is linear in q, so decoding gives the vector k~ whose products are these scores, and attention needs no
// special case. Only the key is reduced to signs: signing both sides would estimate the angle, whose cosine is biased.
// The paper defines keys only; a value decodes by the same map, each coordinate being the estimate for q = e_i.
//
// Row: | ||k|| / sqrt(w), e8m8 | w signs |. The norm over sqrt(w) is the root mean square: it cannot overflow where the row does not.
#include "codec/qjl.h"

#include <cmath>

#include "codec/codec.h"
#include "codec/rows.h"
#include "codec/turbo.h"
#include "math/lane_sum.h"

namespace swivel {
namespace {

constexpr size_t RowBytes(int width) { return 2 + static_cast<size_t>(width) / 8; }

template <Projection kProjection>
void Encode(const float* row, int width, Side, ScaleMode, uint8_t* group, int token) {
  uint8_t* at = group + token * RowBytes(width);
  float y[kMaxHeadWidth];
  const LoadedRow loaded = LoadRow(Frame::kNone, row, width, y);
  if (loaded.is_flat) {
    PutScale(at, loaded.flat_scale);
    std::memset(at + 2, 0xff, static_cast<size_t>(width) / 8);
    return;
  }
  PutScale(at, RmsScale(Dot16(y, y, width), width, loaded.exponent));
  PutSigns(kProjection, y, width, at + 2);
}

template <Projection kProjection>
void DecodeInFrame(const uint8_t* group, int width, Side, int token, float* row) {
  const uint8_t* at = group + token * RowBytes(width);
  const float scale = GetScale(at);
  SumSigns(kProjection, at + 2, width, row);
  for (int i = 0; i < width; ++i) row[i] *= scale;
}

template <Projection kProjection>
constexpr Codec MakeQjl(CodecId id, const char* name, const char* summary) {
  return MakeRows<RowBytes>(id, name, summary, Frame::kNone, 1, 16, /*has_scale_mode=*/false, &Encode<kProjection>, &DecodeInFrame<kProjection>);
}

}  // namespace

void PutSigns(Projection projection, const float* x, int width, uint8_t* signs) {
  const ProjectionMatrix s = GetProjection(projection, width);
  for (int i = 0; i < width; ++i) PutBits(signs, i, 1, Dot16(s.row(i), x, width) >= 0.0f);
}

void SumSigns(Projection projection, const uint8_t* signs, int width, float* sum) {
  const ProjectionMatrix s = GetProjection(projection, width);
  for (int n = 0; n < width; ++n) sum[n] = 0.0f;
  for (int i = 0; i < width; ++i) {
    const float sign = GetBits(signs, i, 1) != 0 ? 1.0f : -1.0f;
    const float* row = s.row(i);
    for (int n = 0; n < width; ++n) sum[n] += sign * row[n];
  }
  const float factor = static_cast<float>(1.0 / (std::sqrt(static_cast<double>(width)) * MeanAbsProjection(projection, width)));
  for (int n = 0; n < width; ++n) sum[n] *= factor;
}

extern const Codec kQjlCodec = MakeQjl<Projection::kGaussian>(CodecId::kQjl, "qjl", "QJL: signs of a Gaussian projection and the norm");
extern const Codec kQjlOrthCodec =
    MakeQjl<Projection::kOrthogonal>(CodecId::kQjlOrth, "qjl_orth", "QJL with an orthogonal projection: 2.75 times less variance");

}  // namespace swivel
