// Sparse V (sparse_v-inl.h): its bound against double precision, what it leaves out against a scalar rule, and that NaN is still seen.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernel/attend/test_problem.h"

namespace swivel {
namespace {

double Norm(const std::vector<double>& row) {
  double sum = 0.0;
  for (double x : row) sum += x * x;
  return std::sqrt(sum);
}

// The largest norm of a stored value of each KV head; of all cells, so at least that of the visible ones.
std::vector<double> LargestValues(Problem& problem, const Case& c) {
  std::vector<double> largest(c.num_kv_heads, 0.0);
  std::vector<float> row(static_cast<size_t>(c.v_width) * c.num_kv_heads);
  for (int64_t cell = 0; cell < c.num_cells * (c.first_stream + c.num_streams); ++cell) {
    problem.v().DecodeCell(cell, row.data());
    for (int h = 0; h < c.num_kv_heads; ++h) {
      const auto begin = row.begin() + static_cast<std::ptrdiff_t>(c.v_width) * h;
      largest[h] = std::max(largest[h], Norm(std::vector<double>(begin, begin + c.v_width)));
    }
  }
  return largest;
}

// The distance of each output row from `expected`, as a share of the largest value of its head; the worst row.
template <class T>
double WorstRow(const Problem& problem, const Case& c, const std::vector<double>& largest, const std::vector<T>& expected) {
  const size_t rows = problem.out().size() / c.v_width;
  double worst = 0.0;
  for (size_t r = 0; r < rows; ++r) {
    std::vector<double> difference;
    for (int i = 0; i < c.v_width; ++i) difference.push_back(problem.out()[r * c.v_width + i] - static_cast<double>(expected[r * c.v_width + i]));
    const size_t head = r / c.num_queries % c.num_heads;
    worst = std::max(worst, Norm(difference) / largest[head / (c.num_heads / c.num_kv_heads)]);
  }
  return worst;
}

TEST(SparseV, TheErrorStaysWithinTheLimit) {
  struct Shape {
    const char *k, *v;
    int heads, kv_heads, queries, streams;
    MaskKind mask;
    bool exact, sinks;
  };
  const Shape shapes[] = {{"f16", "f16", 6, 2, 1, 1, MaskKind::kNone, false, false},     {"f16", "f16", 6, 2, 1, 1, MaskKind::kCausal, true, true},
                          {"f16", "f16", 8, 1, 9, 2, MaskKind::kRandom, true, false},    {"f16", "f16", 14, 2, 3, 1, MaskKind::kRandom, false, true},
                          {"tcq3", "tcq3", 6, 2, 1, 1, MaskKind::kCausal, true, false},  {"tcq3", "tcq6", 4, 4, 40, 1, MaskKind::kRandom, true, true},
                          {"turbo4", "turbo4", 7, 1, 1, 2, MaskKind::kNone, false, true}, {"turbo3", "turbo2", 6, 2, 33, 1, MaskKind::kCausal, false, false},
                          {"f16", "polar", 2, 2, 1, 1, MaskKind::kRandom, true, false},  {"turbo4", "f16", 16, 1, 12, 1, MaskKind::kCausal, false, false}};
  for (const Shape& shape : shapes) {
    Case c;
    c.k = shape.k;
    c.v = shape.v;
    c.num_heads = shape.heads;
    c.num_kv_heads = shape.kv_heads;
    c.num_queries = shape.queries;
    c.num_streams = shape.streams;
    c.num_cells = 3000;
    c.q_scale = 8.0f;  // peaked: there are groups that hardly matter
    Problem problem(c, shape.mask, 21);
    if (shape.exact) {
      problem.KeepExact([](int64_t cell) { return cell < 4 || cell > 2500 || cell % 700 == 0 || (cell > 1024 && cell < 1200); });
    }
    std::vector<float> sinks;
    for (int h = 0; h < c.num_heads; ++h) sinks.push_back(static_cast<float>(2 * h - 5));
    if (shape.sinks) problem.args().sinks = sinks.data();
    const std::vector<double> reference = problem.Exact(), largest = LargestValues(problem, c);
    for (Target target : SupportedTargets()) {
      problem.args().sparse_v = 0.0f;
      problem.Run(KernelsFor(target));
      const std::vector<float> off = problem.out();
      const double of_codes = WorstRow(problem, c, largest, reference);
      const bool floats = std::string(c.k) == "f16" && std::string(c.v) == "f16";
      for (float limit : {0.001f, 0.01f, 0.1f}) {
        SCOPED_TRACE(std::string(TargetName(target)) + " k=" + c.k + " v=" + c.v + " heads " + std::to_string(c.num_heads) + ":" +
                     std::to_string(c.num_kv_heads) + " n_q " + std::to_string(c.num_queries) + " limit " + std::to_string(limit));
        problem.args().sparse_v = limit;
        problem.Run(KernelsFor(target));
        // Kernels of codes round weights to bytes, which keeps the mass of a group to a few percent of it: hence 1.1.
        EXPECT_LE(WorstRow(problem, c, largest, off), 1.1 * limit + 2e-6);
        EXPECT_LE(WorstRow(problem, c, largest, reference), limit + (floats ? 2e-5 : of_codes));
        EXPECT_TRUE(limit < 0.1f || problem.skipped_value_rows() > 0);
      }
    }
  }
}

// Every value is one vector u, so the output is (1 - share of the mass that was left out) u. Keys put an equal mass into all cells, or one that rises
// from group to group, which moves the maximum with each; for the second half of the queries it falls.
struct Flat {
  Case c;
  float rise;  // of the logit from a group to the next
};
Problem MakeFlat(const Flat& flat) {
  Problem problem(flat.c, MaskKind::kNone, 3);
  for (size_t i = 0; i < problem.q().size(); ++i) {
    const size_t query = i / flat.c.k_width % flat.c.num_queries;
    problem.q()[i] = query < (static_cast<size_t>(flat.c.num_queries) + 1) / 2 ? 0.5f : -0.5f;
  }
  std::vector<float> key(static_cast<size_t>(flat.c.k_width) * flat.c.num_kv_heads);
  std::vector<float> value(static_cast<size_t>(flat.c.v_width) * flat.c.num_kv_heads, 1.0f);
  for (int64_t cell = 0; cell < flat.c.num_cells; ++cell) {
    // q . k * scale = width * 0.5 * x / sqrt(width)
    const float x = flat.rise * static_cast<float>(cell / kGroupTokens) * 2.0f / std::sqrt(static_cast<float>(flat.c.k_width));
    std::fill(key.begin(), key.end(), x);
    problem.k().EncodeCell(KernelsFor(SupportedTargets().back()), cell, key.data());
    problem.v().EncodeCell(KernelsFor(SupportedTargets().back()), cell, value.data());
  }
  return problem;
}

// What the rule leaves out.
struct Skips {
  int64_t value_rows = 0;
  double share = 0.0;  // of the first row's mass
};
// The rule in double precision, for the rows of one block. Exact cells come first.
template <class F>
Skips ScalarSkips(const std::vector<std::vector<double>>& logits, F is_exact, bool both, double limit) {
  const auto cells_of_row = static_cast<int64_t>(logits[0].size());
  const int64_t groups = (cells_of_row + kGroupTokens - 1) / kGroupTokens;
  const size_t rows = logits.size();
  std::vector<double> sum(rows, 0.0), left_out(rows, 0.0);
  double turn = 0;
  Skips skips;
  for (const bool exact : {true, false}) {
    if (exact && !both) continue;
    for (int64_t g = 0; g < groups; ++g) {
      ++turn;
      bool skip = true;
      int64_t cells = 0;
      std::vector<double> mass(rows, 0.0);
      for (size_t r = 0; r < rows; ++r) {
        for (int64_t t = g * kGroupTokens; t < std::min((g + 1) * kGroupTokens, cells_of_row); ++t) {
          if (is_exact(t) != exact || std::isinf(logits[r][t])) continue;
          mass[r] += std::exp(logits[r][t]);
          ++cells;
        }
        sum[r] += mass[r];
        if (mass[r] > 0) skip &= left_out[r] + mass[r] <= limit * turn / static_cast<double>(both ? 2 * groups : groups) * sum[r];
      }
      if (!skip) continue;
      skips.value_rows += cells;
      for (size_t r = 0; r < rows; ++r) left_out[r] += mass[r];
    }
  }
  skips.share = left_out[0] / sum[0];
  return skips;
}

TEST(SparseV, TheLimitIsUsedAndKept) {
  for (const auto& [k, v] : {std::pair("f16", "f16"), {"f16", "tcq3"}, {"f16", "turbo4"}}) {
    // One row reads codes in place. 24 unpack them, and blocks of any target's size (2, 4, 6) end between the halves, which skip other groups.
    for (int queries : {1, 24}) {
      for (float rise : {0.0f, 0.02f}) {
        Flat flat;
        flat.c.k = k;
        flat.c.v = v;
        flat.c.num_heads = flat.c.num_kv_heads = 16;  // one split, of 31 groups
        flat.c.k_width = flat.c.v_width = 32;
        flat.c.num_queries = queries;
        flat.c.num_cells = 3968;
        flat.rise = rise;
        Problem problem = MakeFlat(flat);
        constexpr float kLimit = 0.1f;
        std::vector<double> logits[2];
        std::vector<float> key(static_cast<size_t>(flat.c.k_width) * flat.c.num_kv_heads);
        for (int64_t cell = 0; cell < flat.c.num_cells; ++cell) {
          problem.k().DecodeCell(cell, key.data());
          const double logit = 0.5 * key[0] * flat.c.k_width * problem.args().scale;
          logits[0].push_back(logit);
          logits[1].push_back(-logit);
        }
        const auto packed = [](int64_t) { return false; };
        const Skips expected[] = {ScalarSkips({logits[0]}, packed, false, kLimit), ScalarSkips({logits[1]}, packed, false, kLimit)};
        EXPECT_GT(expected[0].share, kLimit / 2);
        EXPECT_TRUE(rise == 0.0f || expected[0].value_rows != expected[1].value_rows);
        for (Target target : SupportedTargets()) {
          SCOPED_TRACE(std::string(TargetName(target)) + " k=" + k + " v=" + v + " n_q " + std::to_string(queries) + " rise " + std::to_string(rise));
          problem.args().sparse_v = 0.0f;
          problem.Run(KernelsFor(target));
          const std::vector<float> off = problem.out();
          problem.args().sparse_v = kLimit;
          problem.Run(KernelsFor(target));
          for (size_t i = 0; i < off.size(); i += 7) {
            const bool second = i / flat.c.v_width % queries >= static_cast<size_t>(queries + 1) / 2;
            ASSERT_NEAR(1.0 - problem.out()[i] / off[i], expected[second].share, 1e-3) << i;
          }
          const int64_t of_a_head = queries == 1 ? expected[0].value_rows : queries / 2 * (expected[0].value_rows + expected[1].value_rows);
          EXPECT_EQ(problem.skipped_value_rows(), 16 * of_a_head);
          EXPECT_EQ(problem.value_rows(), 16 * queries * 3968);
        }
      }
    }
  }
}

// 8 splits of 4 groups each; the first group that is seen holds all of the mass but `quiet`, which the groups behind it share, or those of the same split
// (quiet = 0.162: 0.054 each, of which twice the limit would take two). Values are one vector.
TEST(SparseV, SplitsKnowWhatTheFirstGroupWeighs) {
  constexpr float kLimit = 0.1f;
  constexpr int64_t kGroups = 32;
  for (const bool exact : {false, true}) {
    for (int64_t first : {0, 9}) {  // groups before it are masked
      for (double quiet : {0.05, 0.3, 0.162}) {
        const bool near = quiet == 0.162;
        if (near && first != 0) continue;
        Case c;
        c.k = "f16";
        c.v = "turbo4";
        c.k_width = c.v_width = 32;
        c.num_heads = 6;
        c.num_cells = kGroups * kGroupTokens;
        Problem problem(c, MaskKind::kCausal, 3);
        std::fill(problem.q().begin(), problem.q().end(), 0.5f);
        std::fill_n(problem.mask().begin(), first * kGroupTokens, kMinusInf);
        const double logit = std::log((1 - quiet) / quiet * static_cast<double>(near ? 3 : kGroups - first - 1));
        std::vector<float> key(static_cast<size_t>(c.k_width) * c.num_kv_heads), value(key.size(), 1.0f);
        for (int64_t cell = 0; cell < c.num_cells; ++cell) {
          const int64_t group = cell / kGroupTokens;
          const double of_cell = group == first ? logit : near && group > 3 ? -20.0 : 0.0;
          std::fill(key.begin(), key.end(), static_cast<float>(2 * of_cell / std::sqrt(32.0)));
          problem.k().EncodeCell(KernelsFor(SupportedTargets().back()), cell, key.data());
          problem.v().EncodeCell(KernelsFor(SupportedTargets().back()), cell, value.data());
        }
        if (exact) problem.KeepExact([](int64_t cell) { return cell % 1100 < 4 || cell > 4000; });
        for (Target target : SupportedTargets()) {
          SCOPED_TRACE(std::string(TargetName(target)) + " first " + std::to_string(first) + " quiet " + std::to_string(quiet) + (exact ? " exact" : ""));
          problem.args().sparse_v = 0.0f;
          problem.Run(KernelsFor(target));
          const std::vector<float> off = problem.out();
          problem.args().sparse_v = kLimit;
          problem.Run(KernelsFor(target));
          const double left_out = 1.0 - problem.out()[0] / off[0];
          if (quiet < kLimit) {
            EXPECT_NEAR(left_out, quiet, 2e-3);
            EXPECT_EQ(problem.skipped_value_rows(), 6 * (kGroups - first - 1) * kGroupTokens);
          } else {
            EXPECT_LT(left_out, kLimit + 2e-3);
            EXPECT_TRUE(near || left_out > kLimit / 2) << left_out;
          }
        }
      }
    }
  }
}

TEST(SparseV, CountsWhatTheScalarRuleLeavesOut) {
  for (const bool exact : {false, true}) {
    for (int ratio : {1, 2}) {  // query heads of a KV head: the smallest block of any target holds two rows
      Case c;
      c.k = c.v = "f16";
      c.num_kv_heads = 16;  // one split
      c.num_heads = 16 * ratio;
      c.num_cells = 3000;
      c.q_scale = 5.0f;
      Problem problem(c, MaskKind::kRandom, 33);
      const auto is_exact = [&](int64_t cell) { return exact && (cell < 4 || cell > 2700 || cell % 300 == 0); };
      if (exact) problem.KeepExact(is_exact);
      std::vector<float> key(static_cast<size_t>(c.k_width) * c.num_kv_heads);
      std::vector<std::vector<double>> logits(c.num_heads, std::vector<double>(c.num_cells, -std::numeric_limits<double>::infinity()));
      int64_t visible = 0;
      for (int64_t cell = 0; cell < c.num_cells; ++cell) {
        if (problem.mask()[cell] == kMinusInf) continue;
        visible += c.num_heads;
        problem.k().DecodeCell(cell, key.data());
        for (int h = 0; h < c.num_heads; ++h) {
          double dot = 0.0;
          for (int i = 0; i < c.k_width; ++i) {
            dot += static_cast<double>(problem.q()[static_cast<size_t>(h) * c.k_width + i]) * key[static_cast<size_t>(h / ratio) * c.k_width + i];
          }
          logits[h][cell] = dot * problem.args().scale;
        }
      }
      for (float limit : {0.001f, 0.01f, 0.1f}) {
        int64_t expected = 0;
        for (int h = 0; h < c.num_kv_heads; ++h) {
          expected += ScalarSkips({logits.begin() + h * ratio, logits.begin() + (h + 1) * ratio}, is_exact, exact, limit).value_rows;
        }
        EXPECT_GT(expected, 0);
        EXPECT_LT(expected, visible);
        for (Target target : SupportedTargets()) {
          problem.args().sparse_v = limit;
          problem.Run(KernelsFor(target));
          EXPECT_EQ(problem.value_rows(), visible) << TargetName(target);
          EXPECT_EQ(problem.skipped_value_rows(), expected) << TargetName(target) << " limit " << limit << " ratio " << ratio << " exact " << exact;
        }
      }
    }
  }
}

// Even groups have all of the mass; odd ones next to none.
Problem MakeLoudAndQuiet(const Case& c) {
  Problem problem(c, MaskKind::kNone, 5);
  std::fill(problem.q().begin(), problem.q().end(), 1.0f);
  std::vector<float> key(static_cast<size_t>(c.k_width) * c.num_kv_heads);
  Random random(8);
  for (int64_t cell = 0; cell < c.num_cells; ++cell) {
    for (float& x : key) x = (cell / kGroupTokens % 2 == 0 ? 2.0f : -2.0f) + 0.1f * random.Normal();
    problem.k().EncodeCell(KernelsFor(SupportedTargets().back()), cell, key.data());
  }
  problem.args().sparse_v = 0.001f;
  return problem;
}

TEST(SparseV, QuietGroupsAreLeftOutWhateverTheForm) {
  for (const char* codec : {"f16", "q8_0", "turbo2", "turbo3", "turbo4", "tcq2", "tcq3", "tcq4", "tcq6", "polar"}) {
    for (int queries : {1, 7}) {  // few rows read codes in place, more than 6 unpack them
      Case c;
      c.k = c.v = codec;
      c.num_queries = queries;
      c.num_heads = 16;
      c.num_kv_heads = 8;
      c.num_cells = 512;
      Problem problem = MakeLoudAndQuiet(c);
      for (Target target : SupportedTargets()) {
        for (int threads : {1, 3}) {
          problem.SetThreads(threads);
          problem.Run(KernelsFor(target));
          EXPECT_EQ(problem.value_rows(), int64_t{16} * queries * 512) << codec;
          EXPECT_EQ(problem.skipped_value_rows(), int64_t{16} * queries * 256) << TargetName(target) << " " << codec << " n_q " << queries;
        }
      }
    }
  }
}

TEST(SparseV, NanInAGroupThatWouldBeLeftOutIsSeen) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (Target target : SupportedTargets()) {
    for (const char* codec : {"f16", "bf16", "q8_0", "turbo3", "turbo4", "polar", "tcq1", "tcq3", "tcq6"}) {
      for (int queries : {1, 7}) {  // few rows read codes in place, more than 6 unpack them
        SCOPED_TRACE(std::string(TargetName(target)) + " " + codec + " n_q " + std::to_string(queries));
        Case c;
        c.k = c.v = codec;
        c.num_queries = queries;
        c.num_heads = 16;
        c.num_kv_heads = 8;
        c.num_cells = 512;
        Problem problem = MakeLoudAndQuiet(c);
        std::vector<float> row(static_cast<size_t>(c.v_width) * c.num_kv_heads, 1.0f);
        row[3] = kNan;  // KV head 0
        problem.v().EncodeCell(KernelsFor(target), 400, row.data());
        problem.Run(KernelsFor(target));
        const size_t head = static_cast<size_t>(queries) * c.v_width;
        EXPECT_TRUE(std::isnan(problem.out()[0]));
        EXPECT_TRUE(std::isnan(problem.out()[head]));
        EXPECT_FALSE(std::isnan(problem.out()[2 * head]));
        EXPECT_EQ(problem.skipped_value_rows(), int64_t{16} * queries * 256 - int64_t{2} * queries * 128);
      }
    }
    Case c;
    c.num_cells = 512;
    c.num_heads = 16;
    c.num_kv_heads = 8;
    Problem problem = MakeLoudAndQuiet(c);
    problem.KeepExact([](int64_t cell) { return cell < 4 || cell == 130; });
    problem.exact_value(130)[5] = F16FromF32(kNan);
    problem.Run(KernelsFor(target));
    EXPECT_TRUE(std::isnan(problem.out()[0]));
    EXPECT_FALSE(std::isnan(problem.out()[2 * c.v_width]));
  }
}

TEST(SparseV, ALimitThatNothingMeetsChangesNoBit) {
  for (Target target : SupportedTargets()) {
    for (const char* codec : {"f16", "tcq3", "turbo4"}) {
      for (int queries : {1, 7}) {  // few rows read codes in place, more than 6 unpack them
        Case c;
        c.k = c.v = codec;
        c.num_queries = queries;
        c.num_cells = 1000;
        Problem problem(c, MaskKind::kCausal, 6);
        problem.KeepExact([](int64_t cell) { return cell < 4; });
        problem.Run(KernelsFor(target));
        const std::vector<float> off = problem.out();
        EXPECT_EQ(problem.value_rows(), 0) << "nothing is counted when it is off";
        problem.args().sparse_v = 1e-30f;
        problem.Run(KernelsFor(target));
        EXPECT_EQ(std::memcmp(problem.out().data(), off.data(), off.size() * sizeof(float)), 0);
        EXPECT_EQ(problem.skipped_value_rows(), 0);
        EXPECT_GT(problem.value_rows(), 0);
      }
    }
  }
}

}  // namespace
}  // namespace swivel
