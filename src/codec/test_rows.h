// Rows and groups for tests of codecs and kernels; used by *_test.cc files and tests/ only.
#ifndef SWIVEL_CODEC_TEST_ROWS_H_
#define SWIVEL_CODEC_TEST_ROWS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "codec/codec.h"
#include "math/rotation.h"

namespace swivel::test_rows {

inline const Codec& Find(std::string_view name) { return **FindCodec(name); }

// Those with `encode`: tests of single rows. Codecs that encode groups have files of their own (kivi_test.cc).
inline std::vector<const Codec*> RowCodecs() {
  std::vector<const Codec*> codecs(AllCodecs().begin(), AllCodecs().end());
  std::erase_if(codecs, [](const Codec* codec) { return codec->encodes_groups(); });
  return codecs;
}

// Head widths of real models and their multiples: powers of two, 3, 5, 7 and 9 times a power of two.
inline constexpr int kWidths[] = {32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 320, 512, 576};

inline std::vector<int> WidthsOf(const Codec& codec) {
  std::vector<int> widths;
  for (int width : kWidths) {
    if (CheckWidth(codec, width).ok()) widths.push_back(width);
  }
  return widths;
}

// Codecs that multiply each row by a w x w matrix: a row of width 576 costs what 300 of width 32 do.
inline bool MultipliesByMatrix(const Codec& codec) {
  const std::string_view name = codec.name;
  return name.starts_with("qjl") || name.starts_with("turboprod");
}

// For tests that encode many rows a width. What they look for (bytes of a neighbour, hostile values) does not grow with the matrix, so its
// codecs take the smallest width, one that is no power of two, and a common one. Codecs.EveryRegisteredCodecKeepsTheDirection and
// CopyRow take all widths.
inline std::vector<int> FewWidthsOf(const Codec& codec) {
  if (MultipliesByMatrix(codec)) return {32, 80, 128};
  std::vector<int> widths = WidthsOf(codec);
  // 5 times and 1 time a power of two have been there already, in 80 and 256.
  std::erase_if(widths, [](int width) { return width == 160 || width == 320 || width == 512; });
  return widths;
}

inline std::vector<ScaleMode> ModesOf(const Codec& codec) {
  if (!codec.has_scale_mode) return {ScaleMode::kMatched};
  return {ScaleMode::kMatched, ScaleMode::kUnbiased, ScaleMode::kLeastSquares};
}

// False for frames that mix a few neighbours only (planar, iso, rotor): a row whose energy sits in few channels is beyond them, which
// block_frames_test.cc pins. Tests that demand quality of sparse rows ask this first.
inline bool MixesWholeRow(const Codec& codec) { return codec.key_frame < Frame::kPlanar; }

// What ||x - x^||^2 / ||x||^2 of an isotropic row is about, in the codec's default scale mode; the tests of quality have sharper figures.
inline double TypicalNoise(const Codec& codec, Side side) {
  const std::string_view name = codec.name;
  const bool key = side == Side::kKey;
  if (name == "qjl") return 1.571;
  if (name == "qjl_orth" || name == "rabitq1") return .571;
  if (name == "turboprod2") return key ? .567 : .363;
  if (name == "turboprod3") return key ? .182 : .117;
  if (name == "turboprod4") return key ? .054 : .035;
  if (name == "turboprod2_orth") return key ? .206 : .363;
  if (name == "turboprod3_orth") return key ? .067 : .117;
  if (name == "turboprod4_orth") return key ? .020 : .035;
  if (name == "polar") return .0321;
  if (codec.layout == Layout::kTrellis) {
    constexpr double kNoise[] = {.34, .0871, .0233, .00627, .00175, .0006};
    return kNoise[codec.code_bits - 1];
  }
  if (name == "turbo2.5") return .0872;
  if (name == "turbo3.5") return .0246;
  if (name == "turbo_n5") return .0797;
  if (name == "turbo_n11") return .0187;
  if (codec.layout == Layout::kPlanes) return codec.code_bits == 2 ? .132 : codec.code_bits == 3 ? .037 : .0111;
  return .007;
}

inline const char* SideName(Side side) { return side == Side::kKey ? "key" : "value"; }

inline std::string Describe(const Codec& codec, int width, Side side, ScaleMode mode) {
  return std::string(codec.name) + " width " + std::to_string(width) + " " + SideName(side) + " " + ScaleModeName(mode);
}

inline double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}
inline double Norm(const std::vector<float>& a) { return std::sqrt(Dot(a, a)); }
inline double SquaredDistance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
  return sum;
}

inline std::vector<float> GaussianRow(Random& random, int width, double factor = 1.0) {
  std::vector<float> row(width);
  for (float& x : row) x = static_cast<float>(factor * random.Normal());
  return row;
}

// A direction drawn uniformly, scaled to `norm`.
inline std::vector<float> UnitRow(Random& random, int width, double norm = 1.0) {
  std::vector<float> row = GaussianRow(random, width);
  const double factor = norm / Norm(row);
  for (float& x : row) x = static_cast<float>(x * factor);
  return row;
}

struct NamedRow {
  std::string name;
  std::vector<float> row;
};

// Finite rows that break codecs: sparse, constant, tied, tiny, huge (field reports and rotor_family.md 5.4).
inline std::vector<NamedRow> FiniteAdversaries(int width, uint64_t seed) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr float kDenormal = std::numeric_limits<float>::denorm_min();
  Random random(seed);
  std::vector<NamedRow> rows;
  const auto add = [&](std::string name, auto value) {
    std::vector<float> row(width);
    for (int i = 0; i < width; ++i) row[i] = static_cast<float>(value(i));
    rows.push_back({std::move(name), std::move(row)});
  };
  const auto spike = [](int at, float size) { return [at, size](int i) { return i == at ? size : 0.0f; }; };
  add("zeros", [](int) { return 0.0f; });
  add("negative zeros", [](int) { return -0.0f; });
  add("first spike", spike(0, 1.0f));
  add("middle spike", spike(width / 2 + 1, -37.5f));
  add("last spike", spike(width - 1, 1e-20f));
  add("two spikes", [&](int i) { return i == 3 || i == width - 10 ? 2.0f : 0.0f; });
  add("constant", [](int) { return 1.0f; });
  add("small constant", [](int) { return -3e-5f; });
  add("alternating", [](int i) { return i % 2 == 0 ? 1.0f : -1.0f; });
  add("one outlier", [&](int i) { return i == 17 ? 1000.0f : random.Normal(); });
  add("two outliers", [&](int i) { return i == 3 ? 10.0f : i == width / 2 + 1 ? -10.0f : random.Normal(); });
  add("rotary pair", [&](int i) { return i == 2 ? 20.0 * std::cos(0.7) : i == 3 ? 20.0 * std::sin(0.7) : random.Normal(); });
  add("dynamic range", [&](int i) { return (i % 3 == 0 ? -1.0 : 1.0) * std::pow(10.0, -30.0 + 60.0 * i / (width - 1)); });
  add("small dynamic range", [&](int) { return random.Normal() * std::pow(10.0, -38.0 * random.Uniform()); });
  add("denormals", [&](int i) { return kDenormal * static_cast<float>(i % 7 - 3); });
  add("smallest denormal", spike(width - 3, kDenormal));
  add("around the smallest normal", [&](int) { return random.Normal() * 1.2e-38; });
  add("largest floats", [](int i) { return i % 3 == 0 ? -kLargest : kLargest; });
  add("one largest float", spike(5, -kLargest));
  add("near the largest float", [&](int) { return std::clamp(random.Normal(), -3.0f, 3.0f) * 1e38; });
  add("half steps of 4 bits", [](int i) { return i % 32 == 0 ? -1.0f : 0.0625f * static_cast<float>(i % 32 - 16); });
  add("half steps of 8 bits", [](int i) { return i % 32 == 0 ? 127.0f : 0.5f * static_cast<float>(i % 32) + 20.0f; });
  add("half the block empty", [&](int i) { return i < width / 2 ? 0.0f : random.Normal(); });
  add("blocks of different size", [&](int i) { return random.Normal() * std::pow(16.0, i / 32); });
  // The pattern that the rotation turns into a single spike: its worst case.
  std::vector<float> worst(width, 0.0f);
  worst[width / 3] = 1.0f;
  InverseRotate(Frame::kSignedHadamard, worst.data(), width);
  rows.push_back({"rotates into a spike", worst});
  return rows;
}

// Rows with NaN or infinity at the ends and in the middle.
inline std::vector<NamedRow> DamagedRows(int width, uint64_t seed) {
  Random random(seed);
  std::vector<NamedRow> rows;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (int at : {0, 15, 16, width / 2, width - 1}) {
    for (float value : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(), kInf, -kInf}) {
      std::vector<float> row = GaussianRow(random, width);
      row[at] = value;
      rows.push_back({std::to_string(value) + " at " + std::to_string(at), std::move(row)});
    }
  }
  return rows;
}

// A group between guard bytes.
class GuardedGroup {
 public:
  GuardedGroup(const Codec& codec, int width, int fill) : bytes_(codec.group_bytes(width)), memory_(bytes_ + 2 * kGuard, kGuardByte) {
    for (size_t i = 0; i < bytes_; ++i) data()[i] = static_cast<uint8_t>(fill);  // gcc 12 warns about a memset that cannot be
  }
  GuardedGroup(const Codec& codec, int width, Random& random) : GuardedGroup(codec, width, 0) {
    for (size_t i = 0; i < bytes_; ++i) data()[i] = static_cast<uint8_t>(random.Bits() >> 56);
  }

  uint8_t* data() { return memory_.data() + kGuard; }
  const uint8_t* data() const { return memory_.data() + kGuard; }
  size_t size() const { return bytes_; }
  bool GuardsIntact() const {
    const auto guard = [](uint8_t byte) { return byte == kGuardByte; };
    return std::all_of(memory_.begin(), memory_.begin() + kGuard, guard) && std::all_of(memory_.end() - kGuard, memory_.end(), guard);
  }
  friend bool operator==(const GuardedGroup& a, const GuardedGroup& b) { return a.memory_ == b.memory_; }

 private:
  static constexpr size_t kGuard = 256;
  static constexpr uint8_t kGuardByte = 0xa5;
  size_t bytes_;
  std::vector<uint8_t> memory_;
};

inline std::vector<float> Decode(const Codec& codec, const uint8_t* group, int width, Side side, int token) {
  std::vector<float> row(width, std::numeric_limits<float>::quiet_NaN());  // a decoder that reads before it writes shows
  DecodeRow(codec, group, width, side, token, row.data());
  return row;
}

// Encodes into a fresh group and decodes again.
inline std::vector<float> RoundTrip(const Codec& codec, const std::vector<float>& row, Side side, ScaleMode mode, int token = 0) {
  const int width = static_cast<int>(row.size());
  std::vector<uint8_t> group(codec.group_bytes(width));
  codec.encode(row.data(), width, side, mode, group.data(), token);
  return Decode(codec, group.data(), width, side, token);
}

}  // namespace swivel::test_rows

#endif  // SWIVEL_CODEC_TEST_ROWS_H_
