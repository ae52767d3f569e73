// Attention kernels of every target against the double-precision reference, at odd sizes.
#include "kernel/attend/attend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/half.h"
#include "kernel/attend/test_problem.h"

namespace swivel {
namespace {

// The reference is slower than all kernels together: once for all of them.
void CheckAllTargets(const Case& c, MaskKind mask) {
  Problem problem(c, mask, 42);
  const std::vector<double> exact = problem.Exact();
  for (Target target : SupportedTargets()) {
    SCOPED_TRACE(std::string(TargetName(target)) + " k=" + c.k + " v=" + c.v + " d=" + std::to_string(c.k_width) + "/" +
                 std::to_string(c.v_width) + " heads " + std::to_string(c.num_heads) + ":" + std::to_string(c.num_kv_heads) + " n_q " +
                 std::to_string(c.num_queries) + " n_kv " + std::to_string(c.num_cells));
    problem.Run(KernelsFor(target));
    EXPECT_LT(problem.RelativeError(exact), Bound(c, target));
  }
}

// Scores and accumulation meet in the softmax only, so a codec needs no more partners than the two paths there are: integers and floats.
TEST(Attend, EveryCodecWithIntegersAndFloats) {
  const auto check = [](const char* k, const char* v) {
    Case c;
    c.k = k;
    c.v = v;
    c.num_queries = 3;
    c.num_cells = 150;
    CheckAllTargets(c, MaskKind::kCausal);
  };
  for (const Codec* codec : AllCodecs()) {
    for (const char* partner : {"turbo4", "f16"}) {
      check(codec->name, partner);
      check(partner, codec->name);
    }
  }
}

TEST(Attend, EveryWidth) {
  for (int width : {32, 48, 64, 80, 96, 112, 128, 192, 256, 320, 576}) {
    for (const char* codec : {"turbo2", "turbo3", "turbo4", "f16", "rabitq2", "rabitq3", "rabitq4", "polar", "tcq1", "tcq2", "tcq3", "tcq4", "tcq5",
                              "tcq6"}) {
      Case c;
      c.k = c.v = codec;
      c.k_width = width;
      c.v_width = width;
      c.num_cells = 70;
      CheckAllTargets(c, MaskKind::kNone);
    }
  }
  Case unequal;
  unequal.k_width = 192;
  unequal.v_width = 128;
  CheckAllTargets(unequal, MaskKind::kCausal);
  unequal.k_width = 576;
  unequal.v_width = 512;
  unequal.num_heads = 16;
  unequal.num_kv_heads = 1;
  CheckAllTargets(unequal, MaskKind::kCausal);
}

TEST(Attend, EverySizeOfBatchAndCache) {
  for (int queries : {1, 2, 5, 8, 33, 130}) {
    for (int64_t cells : {1, 31, 64, 65, 127, 128, 129, 256, 1000}) {
      if (queries > cells) continue;
      Case c;
      c.k = "turbo3";
      c.num_queries = queries;
      c.num_cells = cells;
      CheckAllTargets(c, MaskKind::kCausal);
    }
  }
}

TEST(Attend, GroupedQueryRatios) {
  for (int ratio : {1, 2, 3, 7, 8, 16}) {
    Case c;
    c.num_kv_heads = 2;
    c.num_heads = 2 * ratio;
    c.num_queries = 4;
    CheckAllTargets(c, MaskKind::kRandom);
  }
}

TEST(Attend, StreamsReadTheirOwnCells) {
  Case c;
  c.num_streams = 3;
  c.first_stream = 1;
  c.num_queries = 2;
  CheckAllTargets(c, MaskKind::kRandom);
}

TEST(Attend, SoftcapAlibiAndSinks) {
  for (Target target : SupportedTargets()) {
    for (const char* codec : {"f16", "turbo4"}) {
      SCOPED_TRACE(std::string(TargetName(target)) + " " + codec);
      Case c;
      c.k = c.v = codec;
      c.num_queries = 4;
      c.num_cells = 300;
      c.q_scale = 12.0f;
      Problem problem(c, MaskKind::kCausal, 7);
      problem.args().logit_softcap = 5.0f;
      problem.Run(KernelsFor(target));
      EXPECT_LT(problem.RelativeError(), 2 * Bound(c));
      problem.args().logit_softcap = 0.0f;

      // ALiBi: the mask holds distances, scaled by the slope of the head.
      for (int i = 0; i < c.num_queries; ++i) {
        for (int64_t t = 0; t < c.num_cells; ++t) {
          uint16_t& m = problem.mask()[i * c.num_cells + t];
          if (m != kMinusInf) m = F16FromF32(-static_cast<float>(c.num_cells - c.num_queries + i - t));
        }
      }
      problem.args().max_bias = 8.0f;
      problem.Run(KernelsFor(target));
      EXPECT_LT(problem.RelativeError(), 4 * Bound(c));
      problem.args().max_bias = 0.0f;

      const std::vector<float> sinks = {-std::numeric_limits<float>::infinity(), 0.0f, 5.0f, 20.0f, -3.0f, 1.0f};
      problem.args().sinks = sinks.data();
      problem.Run(KernelsFor(target));
      const double with = problem.RelativeError();
      EXPECT_LT(with, 4 * Bound(c));
      problem.args().sinks = nullptr;
      EXPECT_GT(problem.RelativeError(), 10 * with);  // a kernel that ignored the sinks would be seen
    }
  }
}

TEST(Attend, ResultDoesNotDependOnTheNumberOfThreads) {
  for (Target target : SupportedTargets()) {
    Case c;
    c.num_cells = 3000;
    Problem one(c, MaskKind::kCausal, 5);
    one.Run(KernelsFor(target));
    EXPECT_LT(one.RelativeError(), Bound(c));
    for (int threads : {2, 3, 5}) {
      c.threads = threads;
      Problem several(c, MaskKind::kCausal, 5);
      several.Run(KernelsFor(target));
      EXPECT_EQ(one.out(), several.out()) << threads;
    }
  }
}

TEST(Attend, RowsThatSeeNothingAreZero) {
  for (Target target : SupportedTargets()) {
    for (int64_t cells : {100, 2000}) {
      Case c;
      c.num_cells = cells;
      Problem problem(c, MaskKind::kNone, 3);
      problem.mask().assign(cells, kMinusInf);
      problem.args().mask = problem.mask().data();
      problem.Run(KernelsFor(target));
      for (float x : problem.out()) ASSERT_EQ(x, 0.0f);
    }
  }
}

TEST(Attend, NanIsSeenByThoseWhoSeeItsCell) {
  for (Target target : SupportedTargets()) {
    for (const char* codec :
         {"f16", "bf16", "q8_0", "q4_0_rot", "turbo2", "turbo3", "turbo4", "qjl", "turboprod3", "polar", "rabitq1", "rabitq4", "tcq1", "tcq4"}) {
      for (const bool in_keys : {true, false}) {
        SCOPED_TRACE(std::string(TargetName(target)) + " " + codec + (in_keys ? " K" : " V"));
        Case c;
        c.k = c.v = codec;
        c.num_queries = 2;
        Problem problem(c, MaskKind::kCausal, 9);
        std::vector<float> row(static_cast<size_t>(c.k_width) * c.num_kv_heads, 1.0f);
        row[3] = std::numeric_limits<float>::quiet_NaN();
        (in_keys ? problem.k() : problem.v()).EncodeCell(KernelsFor(target), c.num_cells - 1, row.data());
        problem.Run(KernelsFor(target));
        // Query 1 sees the last cell, query 0 does not; NaN sits in KV head 0.
        const auto first = [&](int head, int query) {
          return problem.out()[(static_cast<size_t>(head) * c.num_queries + query) * c.v_width];
        };
        EXPECT_TRUE(std::isnan(first(0, 1)));
        EXPECT_FALSE(std::isnan(first(0, 0)));
        EXPECT_FALSE(std::isnan(first(3, 1)));
      }
    }
  }
}

TEST(Attend, NanInTheQueryIsNotHidden) {
  for (Target target : SupportedTargets()) {
    for (const char* codec : {"f16", "turbo4"}) {
      Case c;
      c.k = c.v = codec;
      Problem problem(c, MaskKind::kNone, 11);
      const_cast<float*>(problem.args().q)[5] = std::numeric_limits<float>::quiet_NaN();
      problem.Run(KernelsFor(target));
      EXPECT_TRUE(std::isnan(problem.out()[0]));
      EXPECT_FALSE(std::isnan(problem.out()[c.v_width]));
    }
  }
}

TEST(Attend, PeakedAttentionFindsItsKey) {
  // One key equals the query: its weight is nearly 1 and the output is its value.
  for (Target target : SupportedTargets()) {
    Case c;
    c.num_cells = 1500;
    Problem problem(c, MaskKind::kNone, 13);
    std::vector<float> row(static_cast<size_t>(c.k_width) * c.num_kv_heads);
    for (size_t i = 0; i < row.size(); ++i) row[i] = 8.0f * problem.args().q[i];
    problem.k().EncodeCell(KernelsFor(target), 700, row.data());
    problem.Run(KernelsFor(target));
    std::vector<float> value(static_cast<size_t>(c.v_width) * c.num_kv_heads);
    problem.v().DecodeCell(700, value.data());
    double error = 0.0, norm = 0.0;
    for (int i = 0; i < c.v_width; ++i) {
      error += std::pow(problem.out()[i] - value[i], 2);
      norm += std::pow(value[i], 2);
    }
    // What is left is the rounding of the levels (math/codebook.h): AVX2 multiplies the narrow ones.
    EXPECT_LT(std::sqrt(error / norm), target == Target::kAvx2 ? 8e-3 : 5e-3) << TargetName(target);
  }
}

TEST(AttendPlan, RefusesShapesThatDoNotFit) {
  Case c;
  Problem problem(c, MaskKind::kNone, 1);
  AttendPlan plan;
  AttendArgs bad = problem.args();
  bad.num_heads = 5;
  EXPECT_EQ(AttendPlan::Make(bad, 1, &plan).code(), StatusCode::kInvalidArgument);
  bad = problem.args();
  bad.k.width = 24;
  EXPECT_EQ(AttendPlan::Make(bad, 1, &plan).code(), StatusCode::kUnsupported);
  bad = problem.args();
  bad.num_cells = 0;
  EXPECT_EQ(AttendPlan::Make(bad, 1, &plan).code(), StatusCode::kInvalidArgument);
  bad = problem.args();
  bad.q = nullptr;
  EXPECT_EQ(AttendPlan::Make(bad, 1, &plan).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(AttendPlan::Make(problem.args(), 0, &plan).code(), StatusCode::kInvalidArgument);
  for (float wrong : {-0.01f, 0.11f, std::numeric_limits<float>::quiet_NaN()}) {
    bad = problem.args();
    bad.sparse_v = wrong;
    EXPECT_EQ(AttendPlan::Make(bad, 1, &plan).code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace swivel
