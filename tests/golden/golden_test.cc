// Golden bytes: what every codec wrote when its layout was fixed, checked with the scalar codec and every target.
//
// README.md describes the files. SWIVEL_WRITE_GOLDEN=1 writes them anew and then fails on purpose, so that no CI job can regenerate
// its own expectations.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "base/random.h"
#include "codec/codec.h"
#include "codec/token_mask.h"
#include "kernel/kernels.h"

namespace swivel {

// Readable names of the parameter in ctest, the same in every run.
void PrintTo(const Codec* codec, std::ostream* out) { *out << codec->name; }

namespace {

enum class Kind { kBell, kOutlier, kSpike, kConstant, kZero, kNan, kTiny, kHuge };
constexpr const char* kKindNames[] = {"bell", "outlier", "spike", "constant", "zero", "nan", "tiny", "huge"};

struct Record {
  Kind kind;
  int width;  // 64 where the codec does not serve it
  Side side;
  ScaleMode mode;
  int token;
};

constexpr Side kKey = Side::kKey, kValue = Side::kValue;
constexpr ScaleMode kMatched = ScaleMode::kMatched, kUnbiased = ScaleMode::kUnbiased, kLeast = ScaleMode::kLeastSquares;
constexpr Record kRecords[] = {
    {Kind::kBell, 32, kKey, kMatched, 0},     {Kind::kBell, 32, kValue, kMatched, 0},   {Kind::kBell, 64, kKey, kMatched, 1},
    {Kind::kBell, 64, kValue, kMatched, 127}, {Kind::kBell, 48, kKey, kMatched, 17},    {Kind::kBell, 80, kValue, kMatched, 31},
    {Kind::kBell, 96, kKey, kMatched, 100},   {Kind::kBell, 32, kKey, kUnbiased, 63},   {Kind::kBell, 32, kValue, kLeast, 64},
    {Kind::kBell, 48, kValue, kUnbiased, 14}, {Kind::kOutlier, 32, kKey, kMatched, 33}, {Kind::kOutlier, 64, kValue, kLeast, 50},
    {Kind::kSpike, 32, kKey, kMatched, 16},   {Kind::kSpike, 80, kKey, kUnbiased, 48},  {Kind::kConstant, 32, kValue, kMatched, 7},
    {Kind::kZero, 32, kKey, kMatched, 5},     {Kind::kNan, 32, kValue, kMatched, 77},   {Kind::kTiny, 32, kKey, kMatched, 111},
    {Kind::kHuge, 32, kValue, kMatched, 126}, {Kind::kBell, 112, kValue, kMatched, 93},
};
static_assert(std::size(kRecords) == 20);

// The input needs no library function, so it is the same everywhere: four 16-bit uniforms added and centred, a standard deviation of 1.15.
std::vector<float> InputRow(Kind kind, int width, uint64_t seed) {
  std::vector<float> row(width);
  for (int i = 0; i < width; ++i) {
    const uint64_t bits = SplitMix64(seed * 4096 + static_cast<uint64_t>(i));
    const int sum = static_cast<int>((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
    row[i] = static_cast<float>(sum - 131070) * 0x1p-15f;
    if (kind == Kind::kSpike || kind == Kind::kZero) row[i] = 0.0f;
    if (kind == Kind::kConstant) row[i] = -0.375f;
    if (kind == Kind::kTiny) row[i] *= 0x1p-140f;
    if (kind == Kind::kHuge) row[i] *= 0x1p100f;
  }
  if (kind == Kind::kSpike) row[width / 3] = 2.5f;
  if (kind == Kind::kOutlier) row[width / 2 + 1] = 60.0f;
  if (kind == Kind::kNan) row[width - 2] = std::numeric_limits<float>::quiet_NaN();
  return row;
}

using Encoder = std::function<void(const Codec&, const float*, int, Side, ScaleMode, uint8_t*, int)>;

std::string Hex(const char* format, unsigned value) {
  char text[16];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

// Runs of bytes that are not zero, as " offset:hex".
std::string BytesText(const std::vector<uint8_t>& group) {
  std::string text = "bytes";
  for (size_t i = 0; i < group.size(); ++i) {
    if (group[i] == 0) continue;
    text += " " + std::to_string(i) + ":";
    for (; i < group.size() && group[i] != 0; ++i) text += Hex("%02x", group[i]);
  }
  return text;
}

// The payload of a NaN that arithmetic made is the processor's affair.
std::string FloatsText(const std::vector<float>& row) {
  std::string text = "f32";
  for (float x : row) text += " " + (std::isnan(x) ? std::string("nan") : Hex("%08x", std::bit_cast<uint32_t>(x)));
  return text;
}

int WidthOf(const Codec& codec, const Record& record) { return CheckWidth(codec, record.width).ok() ? record.width : 64; }

// Codecs that encode groups: three more rows of the same block of 32, bells of other seeds, are encoded with the row.
constexpr int kBeside[] = {1, 2, 16};  // token ^ this

TokenMask EncodeBeside(const Codec& codec, const std::vector<float>& row, uint64_t seed, Side side, uint8_t* group, int token) {
  const auto width = static_cast<int>(row.size());
  std::vector<float> rows(static_cast<size_t>(kGroupTokens) * row.size());
  std::copy(row.begin(), row.end(), rows.begin() + token * width);
  TokenMask tokens;
  tokens.Add(token);
  for (const int beside : kBeside) {
    const std::vector<float> bell = InputRow(Kind::kBell, width, seed + static_cast<uint64_t>(100 * beside));
    std::copy(bell.begin(), bell.end(), rows.begin() + (token ^ beside) * width);
    tokens.Add(token ^ beside);
  }
  return codec.encode_group(rows.data(), row.size(), tokens, {}, width, side, group);
}

// The lines of a codec's file; three a record.
std::vector<std::string> Generate(const Codec& codec, const Encoder& encode) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < std::size(kRecords); ++i) {
    const Record& record = kRecords[i];
    const int width = WidthOf(codec, record);
    const ScaleMode mode = codec.has_scale_mode ? record.mode : kMatched;
    std::vector<uint8_t> group(codec.group_bytes(width), 0);
    const std::vector<float> input = InputRow(record.kind, width, i);
    std::string failed;
    if (codec.encodes_groups()) {
      if (EncodeBeside(codec, input, i, record.side, group.data(), record.token).Has(record.token)) failed = " failed=1";
    } else {
      encode(codec, input.data(), width, record.side, mode, group.data(), record.token);
    }
    std::vector<float> row(width);
    DecodeRow(codec, group.data(), width, record.side, record.token, row.data());
    lines.push_back("record seed=" + std::to_string(i) + " kind=" + kKindNames[static_cast<int>(record.kind)] +
                    " width=" + std::to_string(width) + " side=" + (record.side == kKey ? "key" : "value") +
                    " mode=" + ScaleModeName(mode) + " token=" + std::to_string(record.token) + failed);
    lines.push_back(BytesText(group));
    lines.push_back(FloatsText(row));
  }
  return lines;
}

std::string PathOf(const Codec& codec) { return std::string(SWIVEL_SOURCE_DIR "/tests/golden/") + codec.name + ".txt"; }

std::vector<std::string> ReadLines(const Codec& codec) {
  std::ifstream file(PathOf(codec));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') lines.push_back(line);
  }
  return lines;
}

bool Writing() { return std::getenv("SWIVEL_WRITE_GOLDEN") != nullptr; }

void ExpectSame(const std::vector<std::string>& actual, const std::vector<std::string>& golden) {
  ASSERT_EQ(actual.size(), golden.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i], golden[i]) << "line " << i % 3 << " of " << golden[i - i % 3]
                                    << "\nA changed layout is a new codec: see tests/golden/README.md";
  }
}

class Golden : public testing::TestWithParam<const Codec*> {};

TEST_P(Golden, ScalarCodecWritesTheseBytes) {
  const Codec& codec = *GetParam();
  const std::vector<std::string> lines = Generate(codec, [](const Codec& c, auto... rest) { c.encode(rest...); });
  if (Writing()) {
    std::ofstream file(PathOf(codec));
    file << "# Golden records of " << codec.name << "; see README.md. Written by golden_test, never by hand.\n";
    for (const std::string& line : lines) file << line << "\n";
    FAIL() << "wrote " << PathOf(codec) << "; run again without SWIVEL_WRITE_GOLDEN";
  }
  ExpectSame(lines, ReadLines(codec));
}

TEST_P(Golden, EveryTargetWritesTheseBytes) {
  if (Writing()) GTEST_SKIP() << "writing";
  for (Target target : SupportedTargets()) {
    SCOPED_TRACE(TargetName(target));
    const Kernels& kernels = KernelsFor(target);
    ExpectSame(Generate(*GetParam(), [&](auto&&... arguments) { kernels.encode(arguments...); }), ReadLines(*GetParam()));
  }
}

// Reads the stored bytes, so that an error that encode and decode share is seen too.
TEST_P(Golden, StoredBytesDecodeToTheseFloats) {
  if (Writing()) GTEST_SKIP() << "writing";
  const Codec& codec = *GetParam();
  const std::vector<std::string> lines = ReadLines(codec);
  ASSERT_EQ(lines.size(), 3 * std::size(kRecords));
  for (size_t i = 0; i < std::size(kRecords); ++i) {
    const Record& record = kRecords[i];
    const int width = WidthOf(codec, record);
    std::vector<uint8_t> group(codec.group_bytes(width), 0);
    std::istringstream runs(lines[3 * i + 1].substr(5));
    for (std::string run; runs >> run;) {
      size_t colon = 0;
      const size_t offset = std::stoul(run, &colon);
      for (size_t at = colon + 1; at + 1 < run.size(); at += 2) {
        group.at(offset + (at - colon - 1) / 2) = static_cast<uint8_t>(std::stoul(run.substr(at, 2), nullptr, 16));
      }
    }
    std::vector<float> row(width);
    DecodeRow(codec, group.data(), width, record.side, record.token, row.data());
    ASSERT_EQ(FloatsText(row), lines[3 * i + 2]) << lines[3 * i];
  }
}

// GoogleTest wants letters, digits and underscores: turbo2.5 is turbo2_5 there.
std::string TestName(const testing::TestParamInfo<const Codec*>& codec) {
  std::string name = codec.param->name;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Codecs, Golden, testing::ValuesIn(AllCodecs().begin(), AllCodecs().end()), TestName);

}  // namespace
}  // namespace swivel
