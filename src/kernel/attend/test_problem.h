// An attention call that tests own: random packed rows, queries, masks, what is kept exact, and the double-precision answer.
#ifndef SWIVEL_KERNEL_ATTEND_TEST_PROBLEM_H_
#define SWIVEL_KERNEL_ATTEND_TEST_PROBLEM_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "cache/group_store.h"
#include "kernel/attend/attend.h"
#include "kernel/attend/reference.h"

namespace swivel {

inline constexpr uint16_t kMinusInf = 0xfc00;

struct Case {
  const char* k = "turbo4";
  const char* v = "turbo4";
  int k_width = 64;
  int v_width = 64;
  int num_heads = 6;
  int num_kv_heads = 2;
  int num_queries = 1;
  int64_t num_cells = 200;
  int num_streams = 1;
  int first_stream = 0;
  int threads = 1;
  float q_scale = 1.5f;
};

enum class MaskKind { kNone, kCausal, kRandom };

// Owns everything an attention call reads and writes.
class Problem {
 public:
  Problem(const Case& c, MaskKind mask_kind, uint64_t seed) : case_(c), random_(seed) {
    const int streams = c.first_stream + c.num_streams;
    k_ = MakeStore(c.k, Side::kKey, c.k_width, streams);
    v_ = MakeStore(c.v, Side::kValue, c.v_width, streams);
    q_.resize(static_cast<size_t>(c.num_streams) * c.num_heads * c.num_queries * c.k_width);
    for (float& x : q_) x = c.q_scale * random_.Normal();
    out_.assign(static_cast<size_t>(c.num_streams) * c.num_heads * c.num_queries * c.v_width, -777.0f);
    if (mask_kind != MaskKind::kNone) MakeMask(mask_kind);
    FillArgs();
  }

  AttendArgs& args() { return args_; }
  GroupStore& k() { return *k_; }
  GroupStore& v() { return *v_; }
  std::vector<uint16_t>& mask() { return mask_; }
  std::vector<float>& q() { return q_; }
  void SetThreads(int threads) { case_.threads = threads; }
  const std::vector<float>& out() const { return out_; }
  // Of the last Run.
  int64_t value_rows() const { return value_rows_; }
  int64_t skipped_value_rows() const { return skipped_value_rows_; }

  // Has the cells for which `choose(cell)` holds read from f16 rows; they hold what the stores decode to, rounded.
  template <class F>
  void KeepExact(F choose) {
    const StoreShape& shape = k_->shape();
    const int64_t groups = shape.groups_per_stream();
    exact_bits_.assign(static_cast<size_t>(2 * groups * shape.num_streams), 0);
    for (GroupStore* store : {k_.get(), v_.get()}) {
      std::vector<uint16_t>& rows = store == k_.get() ? exact_k_ : exact_v_;
      const size_t row_values = static_cast<size_t>(store->shape().width) * shape.num_heads;
      std::vector<float> row(row_values);
      rows.resize(row_values * static_cast<size_t>(shape.num_cells * shape.num_streams));
      for (int64_t cell = 0; cell < shape.num_cells * shape.num_streams; ++cell) {
        store->DecodeCell(cell, row.data());
        for (size_t i = 0; i < row_values; ++i) rows[static_cast<size_t>(cell) * row_values + i] = F16FromF32(row[i]);
        const int64_t in_stream = cell % shape.num_cells;
        const auto word = static_cast<size_t>(2 * (cell / shape.num_cells * groups) + in_stream / 64);
        if (choose(in_stream)) exact_bits_[word] |= uint64_t{1} << (in_stream % 64);
      }
    }
    ExactRows& exact = args_.exact;
    exact.bits = exact_bits_.data();
    exact.groups_per_stream = groups;
    exact.k = reinterpret_cast<const uint8_t*>(exact_k_.data());
    exact.v = reinterpret_cast<const uint8_t*>(exact_v_.data());
    exact.k_row_stride = static_cast<size_t>(case_.k_width) * case_.num_kv_heads * sizeof(uint16_t);
    exact.v_row_stride = static_cast<size_t>(case_.v_width) * case_.num_kv_heads * sizeof(uint16_t);
    exact.k_stream_stride = exact.k_row_stride * static_cast<size_t>(shape.num_cells);
    exact.v_stream_stride = exact.v_row_stride * static_cast<size_t>(shape.num_cells);
  }
  uint16_t* exact_value(int64_t cell) { return &exact_v_[static_cast<size_t>(cell) * case_.v_width * case_.num_kv_heads]; }

  void Run(const Kernels& kernels) {
    std::fill(out_.begin(), out_.end(), -777.0f);
    AttendPlan plan;
    const Status status = AttendPlan::Make(args_, case_.threads, &plan);
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<uint8_t> counters(plan.CounterBytes() + 64);
    // Scratch is poisoned so that reading it before writing shows.
    std::vector<uint8_t> scratch(plan.ScratchBytes() + 128, 0xff);
    const auto aligned = [](std::vector<uint8_t>& bytes) {
      return reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(bytes.data()) + 63) / 64 * 64);
    };
    plan.Bind(aligned(counters), aligned(scratch));
    uint8_t* guard = aligned(scratch) + plan.ScratchBytes();
    const uint8_t before = *guard;
    std::vector<std::thread> team;
    for (int t = 1; t < case_.threads; ++t) team.emplace_back([&, t] { plan.Run(kernels, t, case_.threads); });
    plan.Run(kernels, 0, case_.threads);
    for (std::thread& thread : team) thread.join();
    EXPECT_EQ(*guard, before);
    value_rows_ = plan.ValueRows();
    skipped_value_rows_ = plan.SkippedValueRows();
  }

  // What the outputs should be, in the order of out().
  std::vector<double> Exact() {
    std::vector<double> exact;
    for (int s = 0; s < case_.num_streams; ++s) {
      for (int h = 0; h < case_.num_heads; ++h) {
        for (int i = 0; i < case_.num_queries; ++i) {
          const std::vector<double> row = ReferenceAttendRow(args_, s, h, i);
          exact.insert(exact.end(), row.begin(), row.end());
        }
      }
    }
    return exact;
  }

  // The error of all rows, relative to the norm of the exact output.
  double RelativeError() { return RelativeError(Exact()); }
  double RelativeError(const std::vector<double>& exact) {
    EXPECT_EQ(exact.size(), out_.size());
    double error = 0.0, norm = 0.0;
    for (size_t i = 0; i < exact.size(); ++i) {
      error += (exact[i] - out_[i]) * (exact[i] - out_[i]);
      norm += exact[i] * exact[i];
    }
    return std::sqrt(error / std::max(norm, 1e-300));
  }

 private:
  std::unique_ptr<GroupStore> MakeStore(const char* name, Side side, int width, int streams) {
    StoreShape shape;
    shape.width = width;
    shape.num_heads = case_.num_kv_heads;
    shape.num_cells = case_.num_cells;
    shape.num_streams = streams;
    auto store = GroupStore::Create(**FindCodec(name), side, ScaleMode::kMatched, shape);
    EXPECT_TRUE(store.ok()) << store.status().message();
    const size_t row_values = static_cast<size_t>(width) * shape.num_heads;
    for (int64_t group = 0; group < shape.groups_per_stream() * streams; ++group) {
      const int64_t cells = std::min<int64_t>(kGroupTokens, case_.num_cells - group % shape.groups_per_stream() * kGroupTokens);
      std::vector<float> rows(static_cast<size_t>(cells) * row_values);
      for (float& x : rows) x = random_.Normal();
      for (int head = 0; head < shape.num_heads; ++head) {
        (*store)->EncodeGroup(KernelsFor(Target::kPortable), group, head, &rows[static_cast<size_t>(head) * width], row_values,
                              TokenMask::First(cells), {});
      }
    }
    return std::move(*store);
  }

  void MakeMask(MaskKind kind) {
    mask_.resize(static_cast<size_t>(case_.num_streams) * case_.num_queries * case_.num_cells);
    for (int s = 0; s < case_.num_streams; ++s) {
      for (int i = 0; i < case_.num_queries; ++i) {
        for (int64_t t = 0; t < case_.num_cells; ++t) {
          const bool visible = kind == MaskKind::kCausal ? t <= case_.num_cells - case_.num_queries + i : random_.Uniform() < 0.3;
          mask_[(static_cast<size_t>(s) * case_.num_queries + i) * case_.num_cells + t] = visible ? 0 : kMinusInf;
        }
      }
    }
  }

  void FillArgs() {
    const Case& c = case_;
    args_.k = k_->View();
    args_.v = v_->View();
    args_.first_stream = c.first_stream;
    args_.num_streams = c.num_streams;
    args_.num_heads = c.num_heads;
    args_.num_kv_heads = c.num_kv_heads;
    args_.num_queries = c.num_queries;
    args_.num_cells = c.num_cells;
    args_.q = q_.data();
    args_.q_query_stride = c.k_width * sizeof(float);
    args_.q_head_stride = args_.q_query_stride * c.num_queries;
    args_.q_stream_stride = args_.q_head_stride * c.num_heads;
    args_.out = out_.data();
    args_.out_query_stride = c.v_width * sizeof(float);
    args_.out_head_stride = args_.out_query_stride * c.num_queries;
    args_.out_stream_stride = args_.out_head_stride * c.num_heads;
    if (!mask_.empty()) {
      args_.mask = mask_.data();
      args_.mask_query_stride = c.num_cells * sizeof(uint16_t);
      args_.mask_stream_stride = args_.mask_query_stride * c.num_queries;
    }
    args_.scale = 1.0f / std::sqrt(static_cast<float>(c.k_width));
  }

  Case case_;
  Random random_;
  std::unique_ptr<GroupStore> k_, v_;
  std::vector<float> q_, out_;
  std::vector<uint16_t> mask_;
  std::vector<uint64_t> exact_bits_;
  std::vector<uint16_t> exact_k_, exact_v_;
  int64_t value_rows_ = 0, skipped_value_rows_ = 0;
  AttendArgs args_;
};

// Integer arithmetic rounds q, levels and weights to bytes (docs/numerics.md): about 1.5 % of the output's norm, where 4-bit codes themselves
// lose 12 %. Float paths differ by rounding only.
// The narrow levels of AVX2 are off by 1, 1.6 and 1.8 % of a standard deviation for the trellis codes of 4, 5 and 6 bits.
inline double Bound(const Case& c, Target target = Target::kPortable) {
  const bool integer_k = (*FindCodec(c.k))->has_integer_kernels();
  const bool integer_v = (*FindCodec(c.v))->has_integer_kernels();
  if (target == Target::kAvx2) {
    const auto is_fine = [](const char* name) { return (*FindCodec(name))->layout == Layout::kTrellis && (*FindCodec(name))->code_bits >= 4; };
    if (is_fine(c.k) || is_fine(c.v)) return 0.055;
  }
  return integer_v ? 0.025 : integer_k ? 0.017 : 1e-5;
}

}  // namespace swivel

#endif  // SWIVEL_KERNEL_ATTEND_TEST_PROBLEM_H_
