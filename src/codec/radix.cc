// turbo_n5, turbo_n11: TurboQuant's frame and Lloyd-Max books of 5 and 11 levels, packed as digits, for rates between whole bits.
//
// A row is its scale (e8m8) and fields of 7 bits, lowest bits first, one string:
//   5 levels:  code_3j + 5 code_3j+1 + 25 code_3j+2   below 125; a last field of fewer codes has zeros for the rest
//   11 levels: code_2j + 11 code_2j+1                 below 121
// Larger fields are never written; decoding takes their digits modulo the base.
#include <cstring>

#include "base/half.h"
#include "codec/bits.h"
#include "codec/codec.h"
#include "codec/turbo.h"
#include "math/codebook.h"

namespace swivel {
namespace {

constexpr int kFieldBits = 7;

template <int kLevels>
constexpr const float* LevelsOf() {
  if constexpr (kLevels == 5) return kLloydMaxN5.data();
  return kLloydMaxN11.data();
}

template <int kLevels>
inline constexpr int kDigits = kLevels == 5 ? 3 : 2;

template <int kLevels>
size_t RowBytes(int width) {
  const int fields = (width + kDigits<kLevels> - 1) / kDigits<kLevels>;
  return 2 + (static_cast<size_t>(fields) * kFieldBits + 7) / 8;
}

template <int kLevels>
size_t GroupBytes(int width) {
  return kGroupTokens * RowBytes<kLevels>(width);
}

template <int kLevels>
void Encode(const float* row, int width, Side, ScaleMode mode, uint8_t* group, int token) {
  uint8_t* at = group + token * RowBytes<kLevels>(width);
  float y[kMaxHeadWidth];
  // One code more than the last digit of the last field may ask for.
  uint8_t codes[kMaxHeadWidth + 2] = {};
  int exponent = 0;
  const RowKind kind = ScaleDown(row, width, y, &exponent);
  uint16_t scale = kind == RowKind::kZero ? uint16_t{0} : kScaleNan;
  if (kind == RowKind::kOrdinary) {
    Rotate(Frame::kSignedHadamard, y, width);
    const CodeSums sums = NearestLevels({LevelsOf<kLevels>(), kLevels}, y, width, codes);
    scale = RowScale(mode, sums.norm2, sums.code_norm2, sums.product, exponent);
  } else {
    std::memset(codes, kLevels / 2, width);
  }
  PutU16(at, scale);
  BitWriter bits(at + 2);
  for (int i = 0; i < width; i += kDigits<kLevels>) {
    uint32_t field = 0;
    for (int digit = kDigits<kLevels> - 1; digit >= 0; --digit) field = field * kLevels + codes[i + digit];
    bits.Put(field, kFieldBits);
  }
  bits.Finish();
}

template <int kLevels>
void Decode(const uint8_t* group, int width, Side, int token, float* row) {
  const uint8_t* at = group + token * RowBytes<kLevels>(width);
  const float scale = F32FromScale(GetU16(at));
  BitReader bits(at + 2);
  for (int i = 0; i < width; i += kDigits<kLevels>) {
    int field = bits.Get(kFieldBits);
    for (int digit = 0; digit < kDigits<kLevels> && i + digit < width; ++digit, field /= kLevels) {
      row[i + digit] = LevelsOf<kLevels>()[field % kLevels] * scale;
    }
  }
}

template <int kLevels>
void CopyRow(const uint8_t* from_group, int from_token, int width, Side, uint8_t* to_group, int to_token) {
  const size_t bytes = RowBytes<kLevels>(width);
  std::memmove(to_group + to_token * bytes, from_group + from_token * bytes, bytes);
}

template <int kLevels>
constexpr Codec MakeRadix(CodecId id, const char* name, const char* summary, int bits) {
  return {id,
          name,
          summary,
          Frame::kSignedHadamard,
          Frame::kSignedHadamard,
          Layout::kRows,
          bits,
          16,
          true,
          nullptr,
          nullptr,
          &GroupBytes<kLevels>,
          &Encode<kLevels>,
          &Decode<kLevels>,
          &CopyRow<kLevels>};
}

}  // namespace

extern const Codec kTurboN5Codec =
    MakeRadix<5>(CodecId::kTurboN5, "turbo_n5", "signs + Hadamard, 5 Lloyd-Max levels, 3 values in 7 bits", 2);
extern const Codec kTurboN11Codec =
    MakeRadix<11>(CodecId::kTurboN11, "turbo_n11", "signs + Hadamard, 11 Lloyd-Max levels, 2 values in 7 bits", 3);

}  // namespace swivel
