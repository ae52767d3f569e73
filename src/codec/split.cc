// turbo2.5, turbo3.5: the outlier split of TurboQuant (arXiv 2504.19874, section 4.3). A quarter of a row's channels, the outliers, get
// one bit more than the rest (3 and 2, 4 and 3); each part is a TurboQuant of its own: rotation, codes, scale. At width 128 that is
// (32 * 3 + 96 * 2) / 128 = 2.25 bits of codes; the paper prints 2.5 for it, which is true with two 16-bit scales counted.
//
// Which channels? The paper takes them from calibration: those of the largest norm over the prompt of a head, fixed. Here nothing is known
// before a row comes, rows are encoded one by one, and a fixed choice ("the first 32") would be arbitrary. So a row chooses for itself: its
// channels form 8 blocks of neighbours, and the two blocks with the most energy are its outliers. The choice takes 5 bits and the second
// scale 11, so that side information stays at the paper's 32 bits. Neighbours, because rotary embeddings of adjacent pairs and biases of
// heads put outliers side by side.
//
// A row:
//   | scale, e8m8 | 11 bits ratio, 5 bits set | codes of the outliers | codes of the rest |     strings of bits, lowest first
// Outliers are encoded with `scale`, the rest with scale * ratio. ratio: 4 bits exponent e, 7 bits mantissa m, e above:
//   e > 0: (1 + m / 128) 2^(e - 14)        e = 0: (m / 128) 2^-13
// set: block a < block b as b (b - 1) / 2 + a, below 28; a larger one decodes to NaN.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "codec/codec.h"
#include "codec/rows.h"
#include "codec/turbo.h"
#include "math/codebook.h"

namespace swivel {
namespace {

constexpr int kBlocks = 8;
constexpr int kSets = kBlocks * (kBlocks - 1) / 2;
constexpr int kSideBytes = 4;

// The outlier blocks, a < b.
struct Set {
  int a, b;
  int Index() const { return b * (b - 1) / 2 + a; }
};

Set SetOfIndex(int index) {
  int b = 1;
  while (b * (b + 1) / 2 <= index) ++b;
  return {index - b * (b - 1) / 2, b};
}

// The two blocks with the largest sums of squares; the lower one where they are equal.
Set ChooseOutliers(const float* y, int width) {
  int first = -1, second = -1;
  float energy[kBlocks];
  for (int block = 0; block < kBlocks; ++block) {
    energy[block] = 0.0f;
    for (int i = block * (width / kBlocks); i < (block + 1) * (width / kBlocks); ++i) energy[block] += y[i] * y[i];
    if (first < 0 || energy[block] > energy[first]) {
      second = first;
      first = block;
    } else if (second < 0 || energy[block] > energy[second]) {
      second = block;
    }
  }
  return {std::min(first, second), std::max(first, second)};
}

// Calls body(i, part, place) for every channel i: part 0 are the outliers, part 1 the rest, each in the order of channels.
template <class Body>
void ForEachChannel(Set set, int width, Body body) {
  int place[2] = {0, 0};
  for (int i = 0; i < width; ++i) {
    const int block = i / (width / kBlocks);
    const int part = block == set.a || block == set.b ? 0 : 1;
    body(i, part, place[part]++);
  }
}

// Round to nearest even; 0 where nothing is left, the largest where it does not fit (3.98: no row asks for it).
int RatioCode(float ratio) {
  if (!(ratio > 0.0f)) return 0;
  const float scaled = ratio * 0x1p13f;  // of a ratio with e = 0 the mantissa is scaled * 128
  if (scaled < 1.0f) return static_cast<int>(std::nearbyint(scaled * 128.0f));
  const uint32_t bits = std::bit_cast<uint32_t>(scaled);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;  // sign, exponent, 7 mantissa bits
  return static_cast<int>(std::min<uint32_t>(rounded - (126u << 7), 0x7ffu));
}

float RatioOfCode(int code) {
  const int exponent = code >> 7, mantissa = code & 127;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-20f;
  return (1.0f + static_cast<float>(mantissa) / 128.0f) * std::ldexp(1.0f, exponent - 14);
}

template <int kBits>
size_t RowBytes(int width) {
  return kSideBytes + static_cast<size_t>(width) / 32 * (4 * kBits + 1);  // width / 4 codes of one bit more than kBits
}

void PutCodes(const uint8_t* codes, int count, int bits, uint8_t* at) {
  for (int i = 0; i < count; ++i) PutBits(at, bits * i, bits, codes[i]);
}

// kBits: of the codes that are not outliers.
template <int kBits>
void Encode(const float* row, int width, Side, ScaleMode mode, uint8_t* group, int token) {
  uint8_t* at = group + token * RowBytes<kBits>(width);
  const int count[2] = {width / 4, width - width / 4};
  const std::span<const float> levels[2] = {LloydMax(kBits + 1), LloydMax(kBits)};
  float y[kMaxHeadWidth];
  uint8_t codes[2][kMaxHeadWidth];
  for (int part : {0, 1}) std::memset(codes[part], static_cast<int>(levels[part].size() / 2), count[part]);
  const LoadedRow loaded = LoadRow(Frame::kNone, row, width, y);
  uint16_t scale = loaded.flat_scale;
  uint16_t side = 0;
  if (!loaded.is_flat) {
    const Set set = ChooseOutliers(y, width);
    float parts[2][kMaxHeadWidth];
    ForEachChannel(set, width, [&](int i, int part, int place) { parts[part][place] = y[i]; });
    Rotate(Frame::kSignedHadamard, parts[0], count[0]);
    const CodeSums outliers = NearestLevels(levels[0], parts[0], count[0], codes[0]);
    scale = RowScale(mode, outliers, loaded.exponent);
    Rotate(Frame::kSignedHadamard, parts[1], count[1]);
    int ratio = 0;
    if (std::any_of(parts[1], parts[1] + count[1], [](float x) { return x * x > 0.0f; })) {
      const CodeSums rest = NearestLevels(levels[1], parts[1], count[1], codes[1]);
      // Against the scale as stored, so that its rounding does not reach the rest.
      const float stored = std::ldexp(F32FromScale(scale), -loaded.exponent);
      ratio = stored > 0.0f ? RatioCode(RowScale(mode, rest) / stored) : 0;
    }
    side = static_cast<uint16_t>(ratio | set.Index() << 11);
  }
  PutScale(at, scale);
  PutU16(at + 2, side);
  PutCodes(codes[0], count[0], kBits + 1, at + kSideBytes);
  PutCodes(codes[1], count[1], kBits, at + kSideBytes + count[0] / 8 * (kBits + 1));
}

template <int kBits>
void Decode(const uint8_t* group, int width, Side, int token, float* row) {
  const uint8_t* at = group + token * RowBytes<kBits>(width);
  const int count[2] = {width / 4, width - width / 4};
  const uint16_t side = GetU16(at + 2);
  if (side >> 11 >= kSets) {
    std::fill_n(row, width, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  float parts[2][kMaxHeadWidth];
  const float scale = GetScale(at);
  const float rest_scale = scale * RatioOfCode(side & 0x7ff);
  const uint8_t* outliers = at + kSideBytes;
  const uint8_t* rest = outliers + count[0] / 8 * (kBits + 1);
  for (int i = 0; i < count[0]; ++i) parts[0][i] = LloydMax(kBits + 1)[GetBits(outliers, (kBits + 1) * i, kBits + 1)] * scale;
  for (int i = 0; i < count[1]; ++i) parts[1][i] = LloydMax(kBits)[GetBits(rest, kBits * i, kBits)] * rest_scale;
  for (int part : {0, 1}) InverseRotate(Frame::kSignedHadamard, parts[part], count[part]);
  ForEachChannel(SetOfIndex(side >> 11), width, [&](int i, int part, int place) { row[i] = parts[part][place]; });
}

// The two parts have rotations of their own that change from row to row, so a decoded row is in the model's basis.
template <int kBits>
constexpr Codec MakeSplit(CodecId id, const char* name, const char* summary) {
  return MakeRows<RowBytes<kBits>>(id, name, summary, Frame::kNone, kBits, 32, /*has_scale_mode=*/true, &Encode<kBits>, &Decode<kBits>);
}

}  // namespace

extern const Codec kTurbo2_5Codec =
    MakeSplit<2>(CodecId::kTurbo2_5, "turbo2.5", "outlier split: a quarter of the channels like turbo3, the rest like turbo2");
extern const Codec kTurbo3_5Codec =
    MakeSplit<3>(CodecId::kTurbo3_5, "turbo3.5", "outlier split: a quarter of the channels like turbo4, the rest like turbo3");

}  // namespace swivel
