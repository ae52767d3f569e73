// turbo_n5, turbo_n11: TurboQuant's frame and Lloyd-Max books of 5 and 11 levels, packed as digits, for rates between whole bits.
//
// A row is its scale (e8m8) and fields of 7 bits, lowest bits first, one string:
//   5 levels:  code_3j + 5 code_3j+1 + 25 code_3j+2   below 125; a last field of fewer codes has zeros for the rest
//   11 levels: code_2j + 11 code_2j+1                 below 121
// Larger fields are never written; decoding takes their digits modulo the base.
#include <cstring>

#include "codec/codec.h"
#include "codec/rows.h"
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
void Encode(const float* row, int width, Side, ScaleMode mode, uint8_t* group, int token) {
  uint8_t* at = group + token * RowBytes<kLevels>(width);
  std::memset(at, 0, RowBytes<kLevels>(width));
  float y[kMaxHeadWidth];
  // The last digits of the last field may lie behind the row: zeros.
  uint8_t codes[kMaxHeadWidth + 2] = {};
  const LoadedRow loaded = LoadRow(Frame::kSignedHadamard, row, width, y);
  if (loaded.is_flat) {
    std::memset(codes, kLevels / 2, width);
    PutScale(at, loaded.flat_scale);
  } else {
    const CodeSums sums = NearestLevels({LevelsOf<kLevels>(), kLevels}, y, width, codes);
    PutScale(at, RowScale(mode, sums, loaded.exponent));
  }
  for (int i = 0, bit = 0; i < width; i += kDigits<kLevels>, bit += kFieldBits) {
    int field = 0;
    for (int digit = kDigits<kLevels> - 1; digit >= 0; --digit) field = field * kLevels + codes[i + digit];
    PutBits(at + 2, bit, kFieldBits, field);
  }
}

template <int kLevels>
void Decode(const uint8_t* group, int width, Side, int token, float* row) {
  const uint8_t* at = group + token * RowBytes<kLevels>(width);
  const float scale = GetScale(at);
  for (int i = 0, bit = 0; i < width; i += kDigits<kLevels>, bit += kFieldBits) {
    int field = GetBits(at + 2, bit, kFieldBits);
    for (int digit = 0; digit < kDigits<kLevels> && i + digit < width; ++digit, field /= kLevels) {
      row[i + digit] = LevelsOf<kLevels>()[field % kLevels] * scale;
    }
  }
}

template <int kLevels>
constexpr Codec MakeRadix(CodecId id, const char* name, const char* summary, int bits) {
  return MakeRows<RowBytes<kLevels>>(id, name, summary, Frame::kSignedHadamard, bits, 16, /*has_scale_mode=*/true, &Encode<kLevels>,
                                     &Decode<kLevels>);
}

}  // namespace

extern const Codec kTurboN5Codec =
    MakeRadix<5>(CodecId::kTurboN5, "turbo_n5", "signs + Hadamard, 5 Lloyd-Max levels, 3 values in 7 bits", 2);
extern const Codec kTurboN11Codec =
    MakeRadix<11>(CodecId::kTurboN11, "turbo_n11", "signs + Hadamard, 11 Lloyd-Max levels, 2 values in 7 bits", 3);

}  // namespace swivel
