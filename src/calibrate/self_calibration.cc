#include "calibrate/self_calibration.h"

#include <algorithm>

#include "base/half.h"

namespace swivel {
namespace {

constexpr uint16_t kMinusInf = 0xfc00;

const char* At(const void* base, size_t bytes) { return static_cast<const char*>(base) + bytes; }

}  // namespace

void SelfCalibration::Add(const AttendArgs& args) {
  Compact();
  num_heads_ = args.num_heads;
  logit_scale_ = args.scale;
  const int64_t cells_of_stream = args.exact.groups_per_stream > 0 ? static_cast<int64_t>(args.exact.k_stream_stride / args.exact.k_row_stride) : 0;
  for (int stream = 0; stream < args.num_streams; ++stream) {
    for (int i = 0; i < args.num_queries && !complete(); ++i) {
      Runs visible;
      const auto* mask = args.mask == nullptr ? nullptr
                                              : reinterpret_cast<const uint16_t*>(At(args.mask, stream * args.mask_stream_stride + i * args.mask_query_stride));
      for (int64_t cell = 0; cell < args.num_cells; ++cell) {
        if (mask != nullptr && mask[cell] == kMinusInf) continue;
        const int64_t seen = (args.first_stream + stream) * cells_of_stream + cell;
        if (!visible.empty() && visible.back().second == seen) {
          ++visible.back().second;
        } else {
          visible.emplace_back(seen, seen + 1);
        }
      }
      if (visible.empty()) continue;  // padding of a batch
      visible_.push_back(std::move(visible));
      ++live_;
      for (int head = 0; head < args.num_heads; ++head) {
        const auto* q = reinterpret_cast<const float*>(
            At(args.q, stream * args.q_stream_stride + head * args.q_head_stride + i * args.q_query_stride));
        for (int j = 0; j < width_; ++j) queries_.push_back(F16FromF32(q[j]));
      }
    }
  }
}

StatusOr<HeadMoments> SelfCalibration::Moments(const LayerCache& cache, int kv_head, bool group_means) const {
  // Cells that any query sees, and the key that each becomes.
  int64_t behind_last = 0;
  for (const Runs& runs : visible_) {
    if (!runs.empty()) behind_last = std::max(behind_last, runs.back().second);
  }
  std::vector<int> key_of(static_cast<size_t>(behind_last), -1);
  for (const Runs& runs : visible_) {
    for (const auto& [first, last] : runs) std::fill(key_of.begin() + first, key_of.begin() + last, 0);
  }
  std::vector<int64_t> cells;
  for (int64_t cell = 0; cell < behind_last; ++cell) {
    if (key_of[static_cast<size_t>(cell)] < 0) continue;
    key_of[static_cast<size_t>(cell)] = static_cast<int>(cells.size());
    cells.push_back(cell);
  }

  const auto num_keys = static_cast<int>(cells.size());
  std::vector<float> keys;
  std::vector<uint8_t> excluded;
  std::vector<uint16_t> row(static_cast<size_t>(width_) * cache.num_heads());
  bool any_pinned = false;
  for (const int64_t cell : cells) {
    cache.ReadRow(Side::kKey, cell, row.data());
    for (int j = 0; j < width_; ++j) keys.push_back(F32FromF16(row[static_cast<size_t>(kv_head) * width_ + j]));
    excluded.push_back(cache.IsPinned(cell));
    any_pinned |= cache.IsPinned(cell);
  }

  const int group = num_heads_ / cache.num_heads();
  std::vector<float> queries;
  for (int h = 0; h < group; ++h) {
    for (int i = 0; i < num_queries(); ++i) {
      const uint16_t* q = &queries_[(static_cast<size_t>(i) * num_heads_ + static_cast<size_t>(kv_head) * group + h) * width_];
      for (int j = 0; j < width_; ++j) queries.push_back(F32FromF16(q[j]));
    }
  }
  std::vector<uint8_t> visible(static_cast<size_t>(num_queries()) * cells.size());
  for (int i = 0; i < num_queries(); ++i) {
    uint8_t* seen = &visible[static_cast<size_t>(i) * cells.size()];
    // Cells that follow each other are keys that do.
    for (const auto& [first, last] : visible_[static_cast<size_t>(i)]) {
      std::fill_n(seen + key_of[static_cast<size_t>(first)], last - first, uint8_t{1});
    }
  }

  AttentionWindow window;
  window.width = width_;
  window.num_keys = num_keys;
  window.keys = keys.data();
  window.group = group;
  window.num_queries = num_queries();
  window.queries = queries.data();
  window.logit_scale = logit_scale_;
  window.visible = visible.data();
  window.num_sinks = any_pinned ? 0 : kCalibrationSinks;
  window.excluded = excluded.data();
  HeadMoments moments = EmptyMoments(width_, group_means);
  if (Status status = AddWindow(window, &moments); !status.ok()) return status;
  return moments;
}

void SelfCalibration::Forget(int64_t cell) {
  for (Runs& runs : visible_) {
    const auto run = std::find_if(runs.begin(), runs.end(), [&](const auto& r) { return r.first <= cell && cell < r.second; });
    if (run == runs.end()) continue;
    const auto [first, last] = *run;
    // What lies before and behind the cell stays.
    auto at = runs.erase(run);
    if (cell + 1 < last) at = runs.emplace(at, cell + 1, last);
    if (first < cell) runs.emplace(at, first, cell);
    if (runs.empty()) --live_;
  }
}

void SelfCalibration::Compact() {
  if (live_ == num_queries()) return;
  const size_t row = static_cast<size_t>(num_heads_) * static_cast<size_t>(width_);
  size_t kept = 0;
  for (size_t i = 0; i < visible_.size(); ++i) {
    if (visible_[i].empty()) continue;
    if (kept != i) {
      visible_[kept] = std::move(visible_[i]);
      std::copy_n(queries_.begin() + static_cast<long>(i * row), row, queries_.begin() + static_cast<long>(kept * row));
    }
    ++kept;
  }
  visible_.resize(kept);
  queries_.resize(kept * row);
}

void SelfCalibration::Clear() {
  queries_ = {};
  visible_ = {};
  live_ = 0;
}

}  // namespace swivel
