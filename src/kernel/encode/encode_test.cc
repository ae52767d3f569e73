// Encoders of every target against the scalar codecs: the bytes are the same, always.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "codec/test_rows.h"
#include "kernel/kernels.h"

namespace swivel {
namespace {

using test_rows::Describe;
using test_rows::GuardedGroup;

constexpr int kTokens[] = {0, 1, 15, 16, 31, 32, 63, 64, 127};

// Kernels hand all but table codes of nearest levels to the scalar codec: there, few widths show that they do.
std::vector<int> WidthsFor(const Codec& codec) {
  if (codec.layout == Layout::kPlanes && codec.nearest_levels) return test_rows::WidthsOf(codec);
  std::vector<int> widths = test_rows::FewWidthsOf(codec);
  std::erase_if(widths, [](int width) { return width > 128; });
  return widths;
}

// Two groups with the same random contents that are written by the kernel and by the scalar codec in step.
class Pair {
 public:
  Pair(Target target, const Codec& codec, int width, Side side, ScaleMode mode, uint64_t seed)
      : kernels_(KernelsFor(target)),
        codec_(codec),
        width_(width),
        side_(side),
        mode_(mode),
        random_(seed),
        expected_(codec, width, random_),
        actual_(expected_) {}

  void Encode(const std::vector<float>& row, int token, const std::string& what) {
    codec_.encode(row.data(), width_, side_, mode_, expected_.data(), token);
    kernels_.encode(codec_, row.data(), width_, side_, mode_, actual_.data(), token);
    ASSERT_TRUE(actual_ == expected_) << what << ", token " << token << ": " << FirstDifference();
  }

 private:
  std::string FirstDifference() const {
    for (size_t i = 0; i < expected_.size(); ++i) {
      if (expected_.data()[i] == actual_.data()[i]) continue;
      return "byte " + std::to_string(i) + " of " + std::to_string(expected_.size()) + " is " + std::to_string(actual_.data()[i]) +
             ", not " + std::to_string(expected_.data()[i]);
    }
    return "bytes outside the group";
  }

  const Kernels& kernels_;
  const Codec& codec_;
  int width_;
  Side side_;
  ScaleMode mode_;
  Random random_;
  GuardedGroup expected_, actual_;
};

class EncodeKernel : public testing::TestWithParam<Target> {
 protected:
  template <class Body>
  void ForEachCase(uint64_t seed, Body body) {
    for (const Codec* codec : test_rows::RowCodecs()) {
      for (int width : WidthsFor(*codec)) {
        for (Side side : {Side::kKey, Side::kValue}) {
          for (ScaleMode mode : test_rows::ModesOf(*codec)) {
            SCOPED_TRACE(Describe(*codec, width, side, mode) + ", seed " + std::to_string(seed));
            Pair pair(GetParam(), *codec, width, side, mode, seed);
            body(pair, width);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
};

TEST_P(EncodeKernel, RandomRowsAtEveryTokenEdge) {
  ForEachCase(71, [](Pair& pair, int width) {
    Random random(71);
    for (int token : kTokens) ASSERT_NO_FATAL_FAILURE(pair.Encode(test_rows::GaussianRow(random, width, 3.0), token, "random"));
  });
}

TEST_P(EncodeKernel, AdversarialRows) {
  ForEachCase(72, [](Pair& pair, int width) {
    int step = 0;
    for (const test_rows::NamedRow& named : test_rows::FiniteAdversaries(width, 72)) {
      ASSERT_NO_FATAL_FAILURE(pair.Encode(named.row, kTokens[step++ % 9], named.name));
    }
    for (const test_rows::NamedRow& named : test_rows::DamagedRows(width, 72)) {
      ASSERT_NO_FATAL_FAILURE(pair.Encode(named.row, kTokens[step++ % 9], named.name));
    }
  });
}

TEST_P(EncodeKernel, RandomBitPatterns) {
  ForEachCase(73, [](Pair& pair, int width) {
    Random random(73);
    for (int i = 0; i < 4; ++i) {
      std::vector<float> row(width);
      for (float& x : row) {
        do x = std::bit_cast<float>(static_cast<uint32_t>(random.Bits() >> 32));
        while (!std::isfinite(x));
      }
      ASSERT_NO_FATAL_FAILURE(pair.Encode(row, random.Below(kGroupTokens), "bits " + std::to_string(i)));
    }
  });
}

// The neighbours of a decision: two adjacent floats in one coordinate of which the first gives other codes than the second.
TEST_P(EncodeKernel, BothSidesOfAThreshold) {
  for (const Codec* codec : test_rows::RowCodecs()) {
    for (int width : test_rows::FewWidthsOf(*codec)) {
      if (width > 128) continue;
      constexpr uint64_t kSeed = 74;
      SCOPED_TRACE(Describe(*codec, width, Side::kKey, ScaleMode::kMatched) + ", seed " + std::to_string(kSeed));
      Random random(kSeed);
      Pair pair(GetParam(), *codec, width, Side::kKey, ScaleMode::kMatched, kSeed);
      const auto bytes_with = [&](std::vector<float> row, int at, float value) {
        row[at] = value;
        std::vector<uint8_t> group(codec->group_bytes(width), 0);
        codec->encode(row.data(), width, Side::kKey, ScaleMode::kMatched, group.data(), 0);
        return group;
      };
      for (int i = 0; i < 12; ++i) {
        const std::vector<float> row = test_rows::GaussianRow(random, width);
        const int at = random.Below(width);
        float low = row[at], high = low + 0.25f;
        const std::vector<uint8_t> first = bytes_with(row, at, low);
        if (first == bytes_with(row, at, high)) continue;
        while (std::nextafter(low, high) < high) {
          const float middle = low + 0.5f * (high - low);
          if (middle <= low || middle >= high) break;
          (bytes_with(row, at, middle) == first ? low : high) = middle;
        }
        for (float value : {low, high}) {
          std::vector<float> edge = row;
          edge[at] = value;
          ASSERT_NO_FATAL_FAILURE(pair.Encode(edge, i, "threshold " + std::to_string(i)));
        }
      }
    }
  }
}

// Rows need no alignment: they are slices of a tensor.
TEST_P(EncodeKernel, UnalignedRows) {
  for (const Codec* codec : test_rows::RowCodecs()) {
    Random random(75);
    const std::vector<float> row = test_rows::GaussianRow(random, 64);
    std::vector<uint8_t> expected(codec->group_bytes(64), 0);
    codec->encode(row.data(), 64, Side::kValue, ScaleMode::kMatched, expected.data(), 7);
    for (int offset = 0; offset < 16; ++offset) {
      std::vector<float> memory(64 + 16);
      std::copy(row.begin(), row.end(), memory.begin() + offset);
      std::vector<uint8_t> actual(expected.size(), 0);
      KernelsFor(GetParam()).encode(*codec, memory.data() + offset, 64, Side::kValue, ScaleMode::kMatched, actual.data(), 7);
      ASSERT_EQ(actual, expected) << codec->name << " offset " << offset << ", seed 75";
    }
  }
}

// Groups need none either: the plugin's buffer may start anywhere on 32 bytes.
TEST_P(EncodeKernel, UnalignedGroups) {
  for (const Codec* codec : test_rows::RowCodecs()) {
    Random random(76);
    const std::vector<float> row = test_rows::GaussianRow(random, 64);
    for (Side side : {Side::kKey, Side::kValue}) {
      std::vector<uint8_t> expected(codec->group_bytes(64) + 64, 0), actual = expected;
      for (int offset : {1, 2, 4, 31, 32}) {
        codec->encode(row.data(), 64, side, ScaleMode::kMatched, expected.data() + offset, 100);
        KernelsFor(GetParam()).encode(*codec, row.data(), 64, side, ScaleMode::kMatched, actual.data() + offset, 100);
        ASSERT_EQ(actual, expected) << codec->name << " offset " << offset << ", seed 76";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, EncodeKernel, testing::ValuesIn(SupportedTargets()),
                         [](const testing::TestParamInfo<Target>& target) { return std::string(TargetName(target.param)); });

}  // namespace
}  // namespace swivel
