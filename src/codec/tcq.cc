// tcq1 to tcq6: the frame and scales of turbo with trellis codes (math/trellis.h) in place of nearest levels.
//
//   y = R x,   t = y sqrt(width) / ||y||,   path = the least sum of (t_i - level)^2,   x^ = s R^T level
// Trellis-coded quantization: Marcellin and Fischer, IEEE Trans. Commun. 38 (1990); the scales are those of DRIVE and EDEN.
#include <cmath>

#include "codec/codec.h"
#include "codec/plane_rows.h"
#include "codec/tcq.h"
#include "codec/trellis_planes.h"
#include "codec/turbo.h"
#include "math/lane_sum.h"
#include "math/trellis.h"

namespace swivel {
namespace {

// A coordinate's code.
struct Code {
  int u, m;
};

template <int kBits>
void SetTrellisCode(uint8_t* group, int width, Side side, int token, int coordinate, Code code) {
  SetField(group, TrellisBit(side, kBits, width, token, coordinate, 0), 1, code.u);
  if constexpr (TrellisHighBits(kBits) != 0) {
    SetField(group, TrellisBit(side, kBits, width, token, coordinate, 1), 1, code.m >> TrellisFieldBits(kBits));
  }
  if constexpr (TrellisFieldBits(kBits) != 0) {
    constexpr int kMask = (1 << TrellisFieldBits(kBits)) - 1;
    SetField(group, TrellisField(side, kBits, width, token, coordinate), kMask, code.m & kMask);
  }
}

template <int kBits>
Code GetTrellisCode(const uint8_t* group, int width, Side side, int token, int coordinate) {
  Code code = {GetField(group, TrellisBit(side, kBits, width, token, coordinate, 0), 1), 0};
  if constexpr (TrellisHighBits(kBits) != 0) {
    code.m = GetField(group, TrellisBit(side, kBits, width, token, coordinate, 1), 1) << TrellisFieldBits(kBits);
  }
  if constexpr (TrellisFieldBits(kBits) != 0) {
    code.m |= GetField(group, TrellisField(side, kBits, width, token, coordinate), (1 << TrellisFieldBits(kBits)) - 1);
  }
  return code;
}

// The index of the level that a coordinate stands for.
inline int LevelIndex(const uint8_t* u, const uint8_t* m, int n) {
  const auto bit = [&](int k) { return k < 0 ? 0 : u[k]; };
  return 4 * m[n] + TrellisSubset(u[n], bit(n - 1), bit(n - 2), bit(n - 3));
}

template <int kBits>
uint16_t EncodeCodes(Frame frame, const float* row, int width, Side side, ScaleMode mode, uint8_t* codes, int token) {
  float y[kMaxHeadWidth];
  const LoadedRow loaded = LoadRow(frame, row, width, y);
  if (loaded.is_flat) {
    // The path of zeros through the middle of the levels.
    for (int i = 0; i < width; ++i) SetTrellisCode<kBits>(codes, width, side, token, i, {0, 1 << (kBits - 1) >> 1});
    return loaded.flat_scale;
  }
  const float norm2 = Dot16(y, y, width);
  const float to_unit = std::sqrt(static_cast<float>(width) / norm2);
  float t[kMaxHeadWidth];
  for (int i = 0; i < width; ++i) t[TrellisPlace(side, width, i)] = y[i] * to_unit;
  const TrellisBook& book = GetTrellisBook(kBits);
  uint8_t u[kMaxHeadWidth], m[kMaxHeadWidth];
  TrellisSearch(book, t, width, u, m);
  float c[kMaxHeadWidth];
  for (int i = 0; i < width; ++i) {
    const int n = TrellisPlace(side, width, i);
    SetTrellisCode<kBits>(codes, width, side, token, i, {u[n], m[n]});
    c[i] = book.level[LevelIndex(u, m, n)];
  }
  return RowScale(mode, {norm2, Dot16(c, c, width), Dot16(c, y, width)}, loaded.exponent);
}

template <int kBits>
void DecodeCodes(const uint8_t* codes, int width, Side side, int token, float scale, float* row) {
  uint8_t u[kMaxHeadWidth], m[kMaxHeadWidth];
  for (int i = 0; i < width; ++i) {
    const Code code = GetTrellisCode<kBits>(codes, width, side, token, i);
    const int n = TrellisPlace(side, width, i);
    u[n] = static_cast<uint8_t>(code.u);
    m[n] = static_cast<uint8_t>(code.m);
  }
  const TrellisBook& book = GetTrellisBook(kBits);
  for (int i = 0; i < width; ++i) row[i] = book.level[LevelIndex(u, m, TrellisPlace(side, width, i))] * scale;
}

template <int kBits>
void Encode(const float* row, int width, Side side, ScaleMode mode, uint8_t* group, int token) {
  SetPlaneScale(group, kBits, width, token, EncodeCodes<kBits>(Frame::kSignedHadamard, row, width, side, mode, group, token));
}

template <int kBits>
void DecodeInFrame(const uint8_t* group, int width, Side side, int token, float* row) {
  DecodeCodes<kBits>(group, width, side, token, GetPlaneScale(group, kBits, width, token), row);
}

template <int kBits>
void CopyRow(const uint8_t* from_group, int from_token, int width, Side side, uint8_t* to_group, int to_token) {
  for (int i = 0; i < width; ++i) {
    SetTrellisCode<kBits>(to_group, width, side, to_token, i, GetTrellisCode<kBits>(from_group, width, side, from_token, i));
  }
  CopyPlaneScale(from_group, from_token, kBits, width, to_group, to_token);
}

template <int kBits>
constexpr Codec MakeTcq(CodecId id, const char* name, const char* summary) {
  return {id,
          name,
          summary,
          Frame::kSignedHadamard,
          Frame::kSignedHadamard,
          Layout::kTrellis,
          kBits,
          16,
          true,
          nullptr,
          nullptr,
          &PlaneGroupBytes<kBits>,
          &Encode<kBits>,
          &DecodeInFrame<kBits>,
          &CopyRow<kBits>,
          /*nearest_levels=*/false};
}

// Calls f.operator()<bits>() for 1 to kMaxTrellisBits bits.
template <class F>
auto WithBits(int bits, F f) {
  switch (bits) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 3:
      return f.template operator()<3>();
    case 4:
      return f.template operator()<4>();
    case 5:
      return f.template operator()<5>();
    default:
      return f.template operator()<6>();
  }
}

}  // namespace

uint16_t EncodeTrellisCodes(int bits, Frame frame, const float* row, int width, Side side, ScaleMode mode, uint8_t* codes, int token) {
  return WithBits(bits, [&]<int kBits>() { return EncodeCodes<kBits>(frame, row, width, side, mode, codes, token); });
}

void DecodeTrellisCodes(int bits, const uint8_t* codes, int width, Side side, int token, float scale, float* row) {
  WithBits(bits, [&]<int kBits>() { DecodeCodes<kBits>(codes, width, side, token, scale, row); });
}

extern const Codec kTcq1Codec = MakeTcq<1>(CodecId::kTcq1, "tcq1", "signs + Hadamard, 8-state trellis over 4 levels, one scale a row");
extern const Codec kTcq2Codec = MakeTcq<2>(CodecId::kTcq2, "tcq2", "signs + Hadamard, 8-state trellis over 8 levels, one scale a row");
extern const Codec kTcq3Codec = MakeTcq<3>(CodecId::kTcq3, "tcq3", "signs + Hadamard, 8-state trellis over 16 levels, one scale a row");
extern const Codec kTcq4Codec = MakeTcq<4>(CodecId::kTcq4, "tcq4", "signs + Hadamard, 8-state trellis over 32 levels, one scale a row");
extern const Codec kTcq5Codec = MakeTcq<5>(CodecId::kTcq5, "tcq5", "signs + Hadamard, 8-state trellis over 64 levels, one scale a row");
extern const Codec kTcq6Codec = MakeTcq<6>(CodecId::kTcq6, "tcq6", "signs + Hadamard, 8-state trellis over 128 levels, one scale a row");

}  // namespace swivel
