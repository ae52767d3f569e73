// Cutting stored codes: every code loses its lowest bits and nothing else, and the distortion stays within the promised bounds.
#include "codec/demote.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/half.h"
#include "codec/plane_rows.h"
#include "codec/test_rows.h"
#include "math/codebook.h"

namespace swivel {
namespace {

using test_rows::Dot;
using test_rows::Find;
using test_rows::GuardedGroup;
using test_rows::Norm;
using test_rows::SquaredDistance;

struct Cut {
  const char* from;
  const char* to;
  double allowed;  // more distortion than the target codec itself
};
constexpr Cut kCuts[] = {{"turbo4", "turbo3", 0.015}, {"turbo4", "turbo2", 0.03}, {"turbo3", "turbo2", 0.015}};

int CodeOf(const Codec& codec, const uint8_t* group, int width, Side side, int token, int i) {
  if (codec.code_bits == 2) return GetCode<2>(group, width, side, token, i);
  if (codec.code_bits == 3) return GetCode<3>(group, width, side, token, i);
  return GetCode<4>(group, width, side, token, i);
}

TEST(Demote, EveryCodeLosesItsLowestBits) {
  for (const Cut& cut : kCuts) {
    const Codec& from = Find(cut.from);
    const Codec& to = Find(cut.to);
    for (int width : test_rows::kWidths) {
      for (Side side : {Side::kKey, Side::kValue}) {
        SCOPED_TRACE(std::string(cut.from) + " to " + cut.to + " width " + std::to_string(width) + " " + test_rows::SideName(side) +
                     ", seed 111");
        Random random(111);
        const GuardedGroup group(from, width, random);
        GuardedGroup out(to, width, random);
        DemoteGroup(from, to, width, side, ScaleMode::kMatched, group.data(), out.data());
        ASSERT_TRUE(out.GuardsIntact());
        for (int token = 0; token < kGroupTokens; ++token) {
          for (int i = 0; i < width; ++i) {
            ASSERT_EQ(CodeOf(to, out.data(), width, side, token, i),
                      CodeOf(from, group.data(), width, side, token, i) >> (from.code_bits - to.code_bits))
                << "token " << token << " coordinate " << i;
          }
        }
      }
    }
  }
}

// Distortion after the cut over the target codec's own on the same rows, `num_outliers` of whose channels are ten times the rest.
double CostOf(const Codec& from, const Codec& to, int width, ScaleMode mode, int num_outliers, uint64_t seed) {
  Random random(seed);
  double cut_error = 0.0, native_error = 0.0;
  for (int g = 0; g < 24; ++g) {
    const Side side = g % 2 == 0 ? Side::kKey : Side::kValue;
    std::vector<uint8_t> group(from.group_bytes(width), 0), out(to.group_bytes(width), 0xee), native(to.group_bytes(width), 0);
    std::vector<std::vector<float>> rows(kGroupTokens);
    for (int token = 0; token < kGroupTokens; ++token) {
      rows[token] = test_rows::GaussianRow(random, width);
      for (int k = 0; k < num_outliers; ++k) rows[token][(3 + 29 * k) % width] = 10.0f * random.Normal();
      from.encode(rows[token].data(), width, side, mode, group.data(), token);
      to.encode(rows[token].data(), width, side, mode, native.data(), token);
    }
    DemoteGroup(from, to, width, side, mode, group.data(), out.data());
    for (int token = 0; token < kGroupTokens; ++token) {
      const double energy = Dot(rows[token], rows[token]);
      cut_error += SquaredDistance(rows[token], test_rows::Decode(to, out.data(), width, side, token)) / energy;
      native_error += SquaredDistance(rows[token], test_rows::Decode(to, native.data(), width, side, token)) / energy;
    }
  }
  return cut_error / native_error;
}

// The promise of the header, measured. Rows with outliers are narrower than the Gaussian law behind the rotation, where merged cells fit
// less well; the cost is a few percent there.
TEST(Demote, CostsLittleMoreThanTheTargetItself) {
  for (const Cut& cut : kCuts) {
    for (ScaleMode mode : test_rows::ModesOf(Find(cut.from))) {
      const std::string what = std::string(cut.from) + "_to_" + cut.to + "_" + ScaleModeName(mode);
      const double gauss = CostOf(Find(cut.from), Find(cut.to), 128, mode, 0, 112) - 1.0;
      const double narrow = CostOf(Find(cut.from), Find(cut.to), 64, mode, 0, 112) - 1.0;
      const double outliers = CostOf(Find(cut.from), Find(cut.to), 128, mode, 3, 112) - 1.0;
      // tan^2 of the angle (unbiased) grows a little faster than sin^2.
      EXPECT_LT(gauss, mode == ScaleMode::kUnbiased ? 1.05 * cut.allowed : cut.allowed) << what << ", seed 112";
      EXPECT_LT(narrow, cut.allowed + 0.007) << what << ", width 64, seed 112";
      EXPECT_LT(outliers, 3.0 * cut.allowed) << what << ", three outliers, seed 112";
      RecordProperty(what, std::to_string(gauss) + " " + std::to_string(narrow) + " " + std::to_string(outliers));
    }
  }
}

// The tables on their own: codes of 4 bits read at fewer, at scale 1, against the distortions in codebook.h.
TEST(Demote, CutLevelsDecodeCodesAtFewerBits) {
  struct Line {
    int from, to;
    std::span<const float> parent;
    double expected;
  };
  for (const Line& line : {Line{4, 3, kLloydMax4, .034852}, Line{4, 2, kLloydMax4, .120294}, Line{3, 2, kLloydMax3, .118449}}) {
    Random random(113);
    const std::span<const float> levels = CutLevels(line.from, line.to);
    ASSERT_EQ(levels.size(), size_t{1} << line.to);
    double sum = 0.0;
    constexpr int kDraws = 400000;
    for (int i = 0; i < kDraws; ++i) {
      const float x = random.Normal();
      int code = 0;
      for (size_t j = 0; j + 1 < line.parent.size(); ++j) code += x >= Threshold(line.parent[j], line.parent[j + 1]);
      const float decoded = levels[code >> (line.from - line.to)];
      sum += (x - decoded) * (x - decoded);
    }
    EXPECT_NEAR(sum / kDraws, line.expected, 0.01 * line.expected) << line.from << " to " << line.to << ", seed 113";
  }
}

TEST(Demote, ScalesKeepWhatTheirModeKeeps) {
  for (const Cut& cut : kCuts) {
    const Codec& from = Find(cut.from);
    const Codec& to = Find(cut.to);
    for (ScaleMode mode : test_rows::ModesOf(from)) {
      Random random(114);
      std::vector<uint8_t> group(from.group_bytes(128), 0), out(to.group_bytes(128), 0);
      for (int token = 0; token < kGroupTokens; ++token) {
        from.encode(test_rows::GaussianRow(random, 128).data(), 128, Side::kKey, mode, group.data(), token);
      }
      DemoteGroup(from, to, 128, Side::kKey, mode, group.data(), out.data());
      for (int token = 0; token < kGroupTokens; ++token) {
        const std::vector<float> before = test_rows::Decode(from, group.data(), 128, Side::kKey, token);
        const std::vector<float> after = test_rows::Decode(to, out.data(), 128, Side::kKey, token);
        const double kept = mode == ScaleMode::kMatched    ? Norm(after) / Norm(before)
                            : mode == ScaleMode::kUnbiased ? Dot(after, before) / Dot(before, before)
                                                           : Dot(after, before) / Dot(after, after);
        ASSERT_NEAR(kept, 1.0, 0x1p-9 + 1e-6) << cut.from << " to " << cut.to << " " << ScaleModeName(mode) << " token " << token;
      }
    }
  }
}

TEST(Demote, TwoStepsGiveTheCodesOfOne) {
  Random random(115);
  const Codec &four = Find("turbo4"), &three = Find("turbo3"), &two = Find("turbo2");
  std::vector<uint8_t> group(four.group_bytes(80), 0), middle(three.group_bytes(80)), steps(two.group_bytes(80)), once(two.group_bytes(80));
  for (int token = 0; token < kGroupTokens; ++token) {
    four.encode(test_rows::GaussianRow(random, 80).data(), 80, Side::kValue, ScaleMode::kMatched, group.data(), token);
  }
  DemoteGroup(four, three, 80, Side::kValue, ScaleMode::kMatched, group.data(), middle.data());
  DemoteGroup(three, two, 80, Side::kValue, ScaleMode::kMatched, middle.data(), steps.data());
  DemoteGroup(four, two, 80, Side::kValue, ScaleMode::kMatched, group.data(), once.data());
  const size_t scales = ScalesOffset(2, 80);
  EXPECT_EQ(std::memcmp(steps.data(), once.data(), scales), 0);
  for (int token = 0; token < kGroupTokens; ++token) {
    // Each step rounds the scale once.
    EXPECT_NEAR(GetPlaneScale(steps.data(), 2, 80, token) / GetPlaneScale(once.data(), 2, 80, token), 1.0, 0x1p-8) << token;
  }
}

TEST(Demote, ZeroDamagedAndUnwrittenRowsStayWhatTheyAre) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (const Cut& cut : kCuts) {
    const Codec& from = Find(cut.from);
    const Codec& to = Find(cut.to);
    std::vector<uint8_t> group(from.group_bytes(64), 0), out(to.group_bytes(64), 0xee);
    std::vector<float> damaged(64, 1.0f), huge(64, kLargest), tiny(64, 0.0f);
    damaged[7] = std::numeric_limits<float>::quiet_NaN();
    tiny[9] = std::numeric_limits<float>::denorm_min();
    from.encode(std::vector<float>(64, 0.0f).data(), 64, Side::kKey, ScaleMode::kMatched, group.data(), 0);
    from.encode(damaged.data(), 64, Side::kKey, ScaleMode::kMatched, group.data(), 1);
    from.encode(huge.data(), 64, Side::kKey, ScaleMode::kMatched, group.data(), 2);
    from.encode(tiny.data(), 64, Side::kKey, ScaleMode::kMatched, group.data(), 3);
    DemoteGroup(from, to, 64, Side::kKey, ScaleMode::kMatched, group.data(), out.data());
    const auto row = [&](int token) { return test_rows::Decode(to, out.data(), 64, Side::kKey, token); };
    for (float x : row(0)) EXPECT_EQ(x, 0.0f);
    for (float x : row(1)) EXPECT_TRUE(std::isnan(x));
    EXPECT_TRUE(std::isfinite(GetPlaneScale(out.data(), to.code_bits, 64, 2)));  // a large scale stays finite
    for (float x : row(3)) EXPECT_TRUE(std::isfinite(x));
    for (int token = 4; token < kGroupTokens; ++token) {
      for (float x : row(token)) EXPECT_EQ(x, 0.0f);
    }
  }
}

TEST(Demote, RefusesWhatCannotBeCut) {
  for (const Cut& cut : kCuts) EXPECT_TRUE(CheckDemote(Find(cut.from), Find(cut.to)).ok());
  EXPECT_TRUE(CheckDemote(Find("planar4"), Find("planar3")).ok());
  struct Wrong {
    const char* from;
    const char* to;
    const char* reason;
  };
  for (const Wrong& wrong :
       {Wrong{"turbo4", "planar3", "different frames"}, Wrong{"iso4", "iso3_full", "different frames"},
        Wrong{"turbo3", "turbo4", "fewer bits"}, Wrong{"turbo3", "turbo3", "fewer bits"}, Wrong{"q8_0", "turbo3", "table codes"},
        Wrong{"turbo4", "rabitq3", "table codes"}, Wrong{"turbo4", "turbo2.5", "table codes"}}) {
    const Status status = CheckDemote(Find(wrong.from), Find(wrong.to));
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << wrong.from << " " << wrong.to;
    EXPECT_NE(status.message().find(wrong.reason), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(wrong.from), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace swivel
