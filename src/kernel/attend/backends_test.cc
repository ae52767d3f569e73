// A cache that one target wrote is read by another: same bytes from every encoder, same output of a reader whoever wrote. (Public
// implementations build the tables of their rotations once for each backend; where the tables differ, prompts decode to noise.)
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "codec/test_rows.h"
#include "kernel/attend/attend.h"
#include "kernel/attend/reference.h"

namespace swivel {
namespace {

constexpr int kCells = 150;  // two groups, the second one not full

// Gaussian rows, and those of which a table or a rounding rule would show: zeros, the smallest denormal, a row with exact zeros.
std::vector<std::vector<float>> Rows(int width, uint64_t seed) {
  Random random(seed);
  std::vector<std::vector<float>> rows;
  for (int cell = 0; cell < kCells; ++cell) rows.push_back(test_rows::GaussianRow(random, width));
  rows[3].assign(width, 0.0f);
  rows[70].assign(width, 0.0f);
  rows[70][width / 3] = std::numeric_limits<float>::denorm_min();
  for (int i = 0; i < width; i += 2) rows[140][i] = 0.0f;
  return rows;
}

std::vector<uint8_t> Write(Target target, const Codec& codec, Side side, int width) {
  std::vector<uint8_t> groups(2 * codec.group_bytes(width), 0);
  const std::vector<std::vector<float>> rows = Rows(width, side == Side::kKey ? 121 : 122);
  for (int cell = 0; cell < kCells; ++cell) {
    uint8_t* group = groups.data() + cell / kGroupTokens * codec.group_bytes(width);
    KernelsFor(target).encode(codec, rows[cell].data(), width, side, ScaleMode::kMatched, group, cell % kGroupTokens);
  }
  return groups;
}

TEST(Backends, OneWritesAnotherReads) {
  for (const Codec* codec : test_rows::RowCodecs()) {
    for (int width : {64, 128, 192}) {
      if (test_rows::MultipliesByMatrix(*codec) && width > 64) continue;  // no target has an encoder of its own for them
      std::vector<std::pair<std::vector<uint8_t>, std::vector<uint8_t>>> written;
      for (Target writer : SupportedTargets()) {
        written.emplace_back(Write(writer, *codec, Side::kKey, width), Write(writer, *codec, Side::kValue, width));
      }
      Random random(123);
      std::vector<float> q = test_rows::GaussianRow(random, width, 2.0);
      AttendArgs args;
      args.num_heads = args.num_kv_heads = args.num_queries = 1;
      args.num_cells = kCells;
      args.q = q.data();
      args.scale = 1.0f / std::sqrt(static_cast<float>(width));
      for (Target reader : SupportedTargets()) {
        std::vector<float> first;
        for (size_t w = 0; w < written.size(); ++w) {
          const Target writer = SupportedTargets()[w];
          SCOPED_TRACE(std::string(codec->name) + " width " + std::to_string(width) + ", " + TargetName(writer) + " to " +
                       TargetName(reader) + ", seeds 121-123");
          const auto& [keys, values] = written[w];
          args.k = {.codec = codec, .width = width, .base = keys.data(), .strides = {.group = codec->group_bytes(width)}};
          args.v = {.codec = codec, .width = width, .base = values.data(), .strides = {.group = codec->group_bytes(width)}};
          std::vector<float> out(width, -777.0f);
          args.out = out.data();
          AttendPlan plan;
          ASSERT_TRUE(AttendPlan::Make(args, 1, &plan).ok());
          std::vector<uint8_t> counters(plan.CounterBytes() + 64), scratch(plan.ScratchBytes() + 64);
          const auto aligned = [](std::vector<uint8_t>& bytes) {
            return reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(bytes.data()) + 63) / 64 * 64);
          };
          plan.Bind(aligned(counters), aligned(scratch));
          plan.Run(KernelsFor(reader), 0, 1);
          if (first.empty()) {
            first = out;
            const std::vector<double> exact = ReferenceAttendRow(args, 0, 0, 0);
            double error = 0.0, norm = 0.0;
            for (int i = 0; i < width; ++i) {
              error += (exact[i] - out[i]) * (exact[i] - out[i]);
              norm += exact[i] * exact[i];
            }
            // Nearly flat weights over 150 Gaussian rows: a small output, so the roundings weigh more than in attend_test.cc.
            EXPECT_LT(std::sqrt(error / norm), codec->has_integer_kernels() ? (codec->layout == Layout::kTrellis ? 0.08 : 0.05) : 1e-5);
          }
          EXPECT_EQ(out, first);
        }
      }
    }
  }
}

}  // namespace
}  // namespace swivel
