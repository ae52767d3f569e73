// What every codec owes its callers: sizes, independence of rows, copies, names. Quality is in codec_distortion_test.cc, hostile rows
// in codec_edge_test.cc.
#include "codec/codec.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "codec/test_rows.h"
#include "kernel/kernels.h"

namespace swivel {
namespace {

using test_rows::Describe;
using test_rows::GuardedGroup;

template <class Body>
void ForEachCodecWidthSide(Body body, std::vector<int> (*widths_of)(const Codec&) = test_rows::WidthsOf) {
  for (const Codec* codec : test_rows::RowCodecs()) {
    for (int width : widths_of(*codec)) {
      for (Side side : {Side::kKey, Side::kValue}) {
        SCOPED_TRACE(Describe(*codec, width, side, ScaleMode::kMatched));
        body(*codec, width, side);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(Codecs, AreFoundByTheirNames) {
  std::set<std::string> names;
  for (const Codec* codec : AllCodecs()) {
    EXPECT_TRUE(names.insert(codec->name).second) << codec->name;
    const StatusOr<const Codec*> found = FindCodec(codec->name);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found.value(), codec);
    EXPECT_EQ(&GetCodec(codec->id), codec);
    EXPECT_NE(CodecNames().find(codec->name), std::string::npos);
    EXPECT_NE(std::string(codec->summary), "");
    EXPECT_EQ(codec->levels != nullptr, codec->layout == Layout::kPlanes);
    EXPECT_EQ(codec->books != nullptr, codec->layout == Layout::kPlanes);
    EXPECT_EQ(codec->encodes_groups(), codec->layout == Layout::kBlocks);
    EXPECT_NE(codec->encodes_groups(), codec->encode != nullptr);
    EXPECT_NE(codec->encodes_groups(), codec->copy_row != nullptr);
  }
}

TEST(Codecs, UnknownNamesListTheAcceptedOnes) {
  for (const char* name : {"turbo33", "", "Turbo4", "turbo4 ", "q8", "-1"}) {
    const StatusOr<const Codec*> found = FindCodec(name);
    ASSERT_FALSE(found.ok()) << name;
    EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(found.status().message().find("'" + std::string(name) + "'"), std::string::npos);
    for (const Codec* codec : AllCodecs()) EXPECT_NE(found.status().message().find(codec->name), std::string::npos);
  }
}

TEST(Codecs, WidthsThatCannotBeServedAreRefusedWithTheReason) {
  for (const Codec* codec : AllCodecs()) {
    for (int width : {-64, 0, 16, 31, 33, 40, 56, 65, 72, 88, 577, 592, 1024}) {
      const Status status = CheckWidth(*codec, width);
      ASSERT_FALSE(status.ok()) << codec->name << " " << width;
      EXPECT_EQ(status.code(), StatusCode::kUnsupported);
      EXPECT_NE(status.message().find(std::to_string(width)), std::string::npos) << status.message();
      EXPECT_NE(status.message().find(codec->name), std::string::npos) << status.message();
    }
    EXPECT_TRUE(CheckWidth(*codec, 64).ok());
    EXPECT_TRUE(CheckWidth(*codec, 576).ok());
  }
  EXPECT_TRUE(CheckWidth(**FindCodec("turbo3"), 80).ok());
  EXPECT_TRUE(CheckWidth(**FindCodec("turbo2.5"), 96).ok());
  EXPECT_FALSE(CheckWidth(**FindCodec("turbo2.5"), 80).ok());
  EXPECT_FALSE(CheckWidth(**FindCodec("q4_0"), 80).ok());
  EXPECT_FALSE(CheckWidth(**FindCodec("q8_0_rot"), 96).ok());
}

TEST(Codecs, BitsAValueAreTheDocumentedOnes) {
  const std::map<std::string, double> fixed = {{"f16", 16},       {"bf16", 16},  {"q8_0", 8.5},
                                               {"q8_0_rot", 8.5}, {"q4_0", 4.5}, {"q4_0_rot", 4.5}};
  // Bits of the codes, and 16-bit scales a row.
  const std::map<std::string, std::pair<int, int>> codes = {
      {"turbo2", {2, 1}},          {"turbo3", {3, 1}},          {"turbo4", {4, 1}},         {"rabitq1", {1, 1}},
      {"rabitq2", {2, 1}},         {"rabitq3", {3, 1}},         {"rabitq4", {4, 1}},        {"qjl", {1, 1}},
      {"qjl_orth", {1, 1}},        {"turboprod2", {2, 2}},      {"turboprod3", {3, 2}},     {"turboprod4", {4, 2}},
      {"turboprod2_orth", {2, 2}}, {"turboprod3_orth", {3, 2}}, {"turboprod4_orth", {4, 2}},
      {"planar3", {3, 1}},         {"planar4", {4, 1}},         {"iso3", {3, 1}},           {"iso4", {4, 1}},
      {"iso3_full", {3, 1}},       {"iso4_full", {4, 1}},       {"rotor3", {3, 1}},         {"rotor4", {4, 1}},
      {"tcq1", {1, 1}},            {"tcq2", {2, 1}},            {"tcq3", {3, 1}},           {"tcq4", {4, 1}},
      {"tcq5", {5, 1}},            {"tcq6", {6, 1}}};
  // A quarter of the channels has a bit more; digits of 7 bits, up to a byte a row.
  const std::map<std::string, std::function<double(int)>> fractional = {
      {"turbo2.5", [](int width) { return 2.25 + 32.0 / width; }},
      {"turbo3.5", [](int width) { return 3.25 + 32.0 / width; }},
      {"turbo_n5", [](int width) { return 8.0 * (2 + (7 * ((width + 2) / 3) + 7) / 8) / width; }},
      {"turbo_n11", [](int width) { return 3.5 + 16.0 / width; }}};
  ForEachCodecWidthSide([&](const Codec& codec, int width, Side) {
    double documented = 0.0;
    if (fixed.count(codec.name) != 0) {
      documented = fixed.at(codec.name);
    } else if (fractional.count(codec.name) != 0) {
      documented = fractional.at(codec.name)(width);
    } else if (std::string(codec.name) == "polar") {
      documented = 8.0 * ((31 * width + 63) / 64) / width;  // 62 bits for 16 values, up to a byte a row
    } else {
      documented = codes.at(codec.name).first + 16.0 * codes.at(codec.name).second / width;
    }
    EXPECT_EQ(codec.group_bytes(width) % 64, 0u);
    EXPECT_DOUBLE_EQ(8.0 * codec.group_bytes(width) / (128.0 * width), documented);
    EXPECT_DOUBLE_EQ(BitsPerValue(codec, width), documented);
  });
  EXPECT_DOUBLE_EQ(BitsPerValue(**FindCodec("turbo4"), 64), 4.25);
  EXPECT_DOUBLE_EQ(BitsPerValue(**FindCodec("turbo4"), 128), 4.125);
  // The names count the paper's two scales; at other widths they weigh more or less.
  EXPECT_DOUBLE_EQ(BitsPerValue(**FindCodec("turbo2.5"), 128), 2.5);
  EXPECT_DOUBLE_EQ(BitsPerValue(**FindCodec("turbo3.5"), 128), 3.5);
  EXPECT_DOUBLE_EQ(BitsPerValue(**FindCodec("turbo2.5"), 64), 2.75);
  EXPECT_DOUBLE_EQ(BitsPerValue(**FindCodec("turbo_n5"), 128), 2.5);
  EXPECT_DOUBLE_EQ(BitsPerValue(**FindCodec("turbo_n11"), 128), 3.625);
  EXPECT_DOUBLE_EQ(BitsPerValue(**FindCodec("polar"), 128), 3.875);
  EXPECT_DOUBLE_EQ(BitsPerValue(**FindCodec("turboprod3"), 128), 3.25);
  // 34, 50 and 66 bytes for 128 values.
  EXPECT_EQ((*FindCodec("turbo2").value()).group_bytes(128), 128u * 34);
  EXPECT_EQ((*FindCodec("turbo3").value()).group_bytes(128), 128u * 50);
  EXPECT_EQ((*FindCodec("turbo4").value()).group_bytes(128), 128u * 66);
}

// The bits that a row's encode writes are those in which two groups agree that differed everywhere before.
TEST(Codecs, RowsOwnTheirBitsAndFillTheGroup) {
  ForEachCodecWidthSide(
      [](const Codec& codec, int width, Side side) {
        Random random(31);
        std::vector<uint8_t> owned(codec.group_bytes(width), 0);
        for (int token = 0; token < kGroupTokens; ++token) {
          GuardedGroup zeros(codec, width, 0x00), ones(codec, width, 0xff);
          const std::vector<float> row = test_rows::GaussianRow(random, width);
          codec.encode(row.data(), width, side, ScaleMode::kMatched, zeros.data(), token);
          codec.encode(row.data(), width, side, ScaleMode::kMatched, ones.data(), token);
          ASSERT_TRUE(zeros.GuardsIntact() && ones.GuardsIntact()) << token;
          for (size_t i = 0; i < owned.size(); ++i) {
            const uint8_t written = static_cast<uint8_t>(~(zeros.data()[i] ^ ones.data()[i]));
            if ((owned[i] & written) != 0) FAIL() << "byte " << i << " token " << token;  // an assertion a byte takes longer than the codec
            owned[i] |= written;
          }
        }
        for (size_t i = 0; i < owned.size(); ++i) {
          if (owned[i] != 0xff) FAIL() << "byte " << i << " belongs to nobody";
        }
      },
      test_rows::FewWidthsOf);
}

TEST(Codecs, EncodeLeavesOtherRowsAndDecodesWhatItWrote) {
  ForEachCodecWidthSide(
      [](const Codec& codec, int width, Side side) {
        Random random(32);
        GuardedGroup group(codec, width, random);
        std::vector<std::vector<float>> rows(kGroupTokens);
        // All tokens in a scattered order, a quarter of them again: rows are overwritten as a ring cache does.
        for (int step = 0; step < kGroupTokens * 5 / 4; ++step) {
          const int token = step * 37 % kGroupTokens;
          const std::vector<float> row = test_rows::GaussianRow(random, width);
          codec.encode(row.data(), width, side, ScaleMode::kMatched, group.data(), token);
          rows[token] = row;
        }
        for (int token = 0; token < kGroupTokens; ++token) {
          const std::vector<float> alone = test_rows::RoundTrip(codec, rows[token], side, ScaleMode::kMatched, token);
          ASSERT_EQ(test_rows::Decode(codec, group.data(), width, side, token), alone) << token;
        }
        ASSERT_TRUE(group.GuardsIntact());
      },
      test_rows::FewWidthsOf);
}

// A placeholder in a table of function pointers returns zeros and is found late.
TEST(Codecs, EveryRegisteredCodecKeepsTheDirection) {
  ForEachCodecWidthSide([](const Codec& codec, int width, Side side) {
    Random random(33);
    const std::vector<float> row = test_rows::GaussianRow(random, width);
    std::vector<uint8_t> group(codec.group_bytes(width), 0);
    codec.encode(row.data(), width, side, ScaleMode::kMatched, group.data(), 5);
    EXPECT_NE(group, std::vector<uint8_t>(group.size(), 0));
    const std::vector<float> back = test_rows::Decode(codec, group.data(), width, side, 5);
    const double typical = 1.0 / std::sqrt(1.0 + test_rows::TypicalNoise(codec, side));
    EXPECT_GE(test_rows::Dot(row, back) / (test_rows::Norm(row) * test_rows::Norm(back)), 0.8 * typical);
  });
}

TEST(Codecs, CopyRowIsExactAndTouchesNothingElse) {
  ForEachCodecWidthSide([](const Codec& codec, int width, Side side) {
    Random random(34);
    const GuardedGroup source(codec, width, random);
    for (auto [from, to] : {std::pair{0, 0}, {0, 127}, {127, 1}, {17, 16}, {33, 62}, {64, 64}, {31, 32}}) {
      GuardedGroup target(codec, width, random);
      GuardedGroup expected = target;
      codec.copy_row(source.data(), from, width, side, target.data(), to);
      ASSERT_TRUE(target.GuardsIntact());
      // Compare in the codec's frame as bits: random bytes decode to NaN too.
      std::vector<float> original(width), copy(width);
      codec.decode_in_frame(source.data(), width, side, from, original.data());
      codec.decode_in_frame(target.data(), width, side, to, copy.data());
      ASSERT_EQ(std::memcmp(original.data(), copy.data(), width * sizeof(float)), 0) << from << " to " << to;
      // Copying the row back from the untouched group must restore every byte: nothing else changed.
      codec.copy_row(expected.data(), to, width, side, target.data(), to);
      ASSERT_TRUE(target == expected) << from << " to " << to;
      // The same group on both sides.
      codec.copy_row(target.data(), from, width, side, target.data(), to);
      codec.decode_in_frame(expected.data(), width, side, from, original.data());
      codec.decode_in_frame(target.data(), width, side, to, copy.data());
      ASSERT_EQ(std::memcmp(original.data(), copy.data(), width * sizeof(float)), 0) << from << " to " << to << " in place";
    }
  });
}

// Hosts run us on threads with small stacks (musl: 128 KiB).
TEST(Codecs, WorkOnAThreadWithASmallStack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)  // clang has no such macro
  constexpr size_t kStack = 256 << 10;  // the sanitizers' red zones and their own start-up code come on top
#elif defined(__aarch64__)
  constexpr size_t kStack = 128 << 10;  // glibc allows no less there
#else
  constexpr size_t kStack = 64 << 10;
#endif
  const auto body = [](void*) -> void* {
    for (const Codec* codec : AllCodecs()) {
      std::vector<uint8_t> group(codec->group_bytes(576));
      if (codec->encodes_groups()) {
        const std::vector<float> rows(kGroupTokens * 576, 0.5f);
        codec->encode_group(rows.data(), 576, TokenMask::First(kGroupTokens), {}, 576, Side::kKey, group.data());
        continue;
      }
      std::vector<float> row(576, 0.5f);
      row[3] = -2.0f;
      for (Target target : SupportedTargets())
        KernelsFor(target).encode(*codec, row.data(), 576, Side::kKey, ScaleMode::kMatched, group.data(), 9);
      codec->encode(row.data(), 576, Side::kKey, ScaleMode::kMatched, group.data(), 9);
      DecodeRow(*codec, group.data(), 576, Side::kKey, 9, row.data());
    }
    return nullptr;
  };
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStack), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, body, nullptr), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

}  // namespace
}  // namespace swivel
