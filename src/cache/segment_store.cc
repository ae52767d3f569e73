#include "cache/segment_store.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/half.h"

namespace swivel {
namespace {

// Rows that come to a packed group later and are at least this many make it worth its loss to code the others a second time.
constexpr int kManyLateRows = kGroupTokens / 2;

bool IsFinite(const uint16_t* row, int width) {
  for (int i = 0; i < width; ++i) {
    if ((row[i] & 0x7c00) == 0x7c00) return false;
  }
  return true;
}

StatusOr<LazyMemory> ReserveAll(const StoreShape& shape, size_t bytes) {
  for (int64_t count : {static_cast<int64_t>(shape.num_heads), shape.groups_per_stream(), static_cast<int64_t>(shape.num_streams)}) {
    if (__builtin_mul_overflow(bytes, count, &bytes)) {
      return Status::OutOfMemory("a store of " + std::to_string(shape.num_cells) + " cells is larger than the address space");
    }
  }
  return LazyMemory::Reserve(bytes);
}

// The rows of a group on their way into codes.
struct Workspace {
  std::vector<float> y;                                 // [128][width]
  uint16_t scale[kMaxSegments][kGroupTokens] = {};
  float* row(int token, int width) { return y.data() + static_cast<size_t>(token) * width; }
};

}  // namespace

StatusOr<std::unique_ptr<SegmentStore>> SegmentStore::Create(const Codec& codec, const SegmentLayout& layout, ScaleMode mode,
                                                             const StoreShape& shape) {
  if (Status status = CheckWidth(codec, shape.width); !status.ok()) return status;
  if (shape.num_heads < 1 || shape.num_cells < 1 || shape.num_streams < 1) {
    return Status::Invalid("a store needs at least one head, cell and stream");
  }
  std::unique_ptr<SegmentStore> store(new SegmentStore());
  store->codec_ = &codec;
  store->layout_ = layout;
  store->mode_ = mode;
  store->shape_ = shape;
  store->side_bytes_ = layout.SideBytes();
  StatusOr<LazyMemory> codes = ReserveAll(shape, layout.CodesBytes());
  if (!codes.ok()) return codes.status();
  StatusOr<LazyMemory> side = ReserveAll(shape, store->side_bytes_);
  if (!side.ok()) return side.status();
  store->codes_ = std::move(*codes);
  store->side_ = std::move(*side);
  return store;
}

KvView SegmentStore::View() const {
  const auto strides = [&](size_t bytes) {
    const size_t group = bytes * shape_.num_heads;
    return GroupStrides{.group = group, .head = bytes, .stream = group * shape_.groups_per_stream()};
  };
  KvView view;
  view.codec = codec_;
  view.width = shape_.width;
  view.base = codes_.data();
  view.strides = strides(layout_.CodesBytes());
  view.segments = &layout_;
  view.side = side_.data();
  view.side_strides = strides(side_bytes_);
  view.transforms = transforms_.empty() ? nullptr : transforms_.data();
  return view;
}

uint8_t* SegmentStore::Codes(int64_t group, int head) const { return codes_.data() + layout_.CodesBytes() * (group * shape_.num_heads + head); }
uint8_t* SegmentStore::SideData(int64_t group, int head) const { return side_.data() + side_bytes_ * (group * shape_.num_heads + head); }

void SegmentStore::ToBasis(const Kernels& kernels, int head, const uint16_t* row, float* y) const {
  const int width = shape_.width;
  if (layout_.side == Side::kValue) {
    for (int i = 0; i < width; ++i) y[i] = F32FromF16(row[i]);
    return kernels.rotate(codec_->frame(Side::kValue), y, width);
  }
  const KeyTransform& transform = transforms_[head];
  float centred[kMaxHeadWidth];
  for (int i = 0; i < width; ++i) centred[i] = F32FromF16(row[i]) - transform.mean[i];
  kernels.multiply(transform.forward.data(), centred, width, y);
}

TokenMask SegmentStore::PackGroup(const Kernels& kernels, int64_t group, int head, const GroupRows& rows, TokenMask tokens, TokenMask packed) {
  const int width = shape_.width;
  uint8_t* codes = Codes(group, head);
  uint8_t* side = SideData(group, head);
  TokenMask failed;
  Workspace work;
  work.y.resize(static_cast<size_t>(kGroupTokens) * width);
  for (int token = 0; token < kGroupTokens; ++token) {
    if (!tokens.Has(token)) continue;
    if (IsFinite(rows.row(token), width)) {
      ToBasis(kernels, head, rows.row(token), work.row(token, width));
    } else {
      failed.Add(token);
    }
  }
  tokens = tokens & ~failed;
  packed = packed & ~tokens;
  const bool fresh = !packed.Any() || tokens.Count() >= kManyLateRows;
  if (fresh && packed.Any()) {
    for (int token = 0; token < kGroupTokens; ++token) {
      if (packed.Has(token)) DecodeSegmentRow(layout_, codes, side, token, work.row(token, width));
    }
    tokens = tokens | packed;
  }
  if (!tokens.Any()) return failed;

  float mean[kMaxHeadWidth] = {};
  if (fresh) {
    for (int token = 0; token < kGroupTokens; ++token) {
      if (!tokens.Has(token)) continue;
      for (int i = 0; i < width; ++i) mean[i] += work.row(token, width)[i];
    }
    for (int i = 0; i < width; ++i) mean[i] /= static_cast<float>(tokens.Count());
    std::memset(side, 0, side_bytes_);
    SetGroupMean(layout_, mean, side);
  }
  GetGroupMean(layout_, side, mean);  // as it was rounded

  for (int s = 0; s < layout_.count; ++s) {
    const Segment& segment = layout_.segment[s];
    uint16_t base = fresh ? uint16_t{0} : SegmentBase(side, s);
    for (int token = 0; token < kGroupTokens; ++token) {
      if (!tokens.Has(token) || failed.Has(token)) continue;
      float* y = work.row(token, width) + segment.begin;
      for (int i = 0; i < segment.width; ++i) y[i] -= mean[segment.begin + i];
      const uint16_t scale =
          kernels.encode_trellis(segment.bits, Frame::kNone, y, segment.width, layout_.side, mode_, codes + layout_.CodesOffset(s), token);
      work.scale[s][token] = scale;
      if (scale == kScaleNan || (!fresh && scale > base)) {
        failed.Add(token);
      } else {
        base = std::max(base, scale);
      }
    }
    if (base < SmallestBase(layout_)) base = 0;
    SetSegmentBase(side, s, base);
    for (int token = 0; token < kGroupTokens; ++token) {
      if (tokens.Has(token) && !failed.Has(token)) side[layout_.ScalesOffset(s) + token] = SegmentScaleCode(layout_, base, work.scale[s][token]);
    }
  }
  return failed;
}

void SegmentStore::DecodeHead(int64_t cell, int head, float* row) const {
  const int width = shape_.width;
  const int64_t group = cell / shape_.num_cells * shape_.groups_per_stream() + cell % shape_.num_cells / kGroupTokens;
  const int token = static_cast<int>(cell % shape_.num_cells % kGroupTokens);
  float y[kMaxHeadWidth];
  DecodeSegmentRow(layout_, Codes(group, head), SideData(group, head), token, y);
  if (layout_.side == Side::kValue) {
    InverseRotate(codec_->frame(Side::kValue), y, width);
    std::copy(y, y + width, row);
    return;
  }
  if (transforms_.empty()) return std::fill(row, row + width, 0.0f);
  const KeyTransform& transform = transforms_[head];
  std::copy(transform.mean.begin(), transform.mean.end(), row);
  for (int j = 0; j < width; ++j) {
    for (int i = 0; i < width; ++i) row[i] += transform.inverse[static_cast<size_t>(j) * width + i] * y[j];
  }
}

void SegmentStore::DiscardGroups(int64_t first, int64_t count) {
  const size_t codes = layout_.CodesBytes() * static_cast<size_t>(shape_.num_heads), side = side_bytes_ * static_cast<size_t>(shape_.num_heads);
  codes_.DiscardRange(codes * static_cast<size_t>(first), codes * static_cast<size_t>(count));
  side_.DiscardRange(side * static_cast<size_t>(first), side * static_cast<size_t>(count));
}

bool SegmentStore::CopyCells(const PackedStore& other, int64_t from, int64_t to, int64_t count) {
  const auto& source = static_cast<const SegmentStore&>(other);
  const int64_t cells = shape_.num_cells;
  // A stream's last group may be incomplete, so streams are copied as a whole or by full groups.
  const bool streams = from % cells == 0 && to % cells == 0 && count % cells == 0;
  const bool groups = from % cells % kGroupTokens == 0 && to % cells % kGroupTokens == 0 && count % kGroupTokens == 0 &&
                      from % cells + count <= cells && to % cells + count <= cells;
  if (&source != this || (!streams && !groups)) return false;
  const auto group_of = [&](int64_t cell) { return cell / cells * shape_.groups_per_stream() + cell % cells / kGroupTokens; };
  const int64_t num_groups = streams ? count / cells * shape_.groups_per_stream() : count / kGroupTokens;
  std::memcpy(Codes(group_of(to), 0), source.Codes(group_of(from), 0), layout_.CodesBytes() * shape_.num_heads * num_groups);
  std::memcpy(SideData(group_of(to), 0), source.SideData(group_of(from), 0), side_bytes_ * shape_.num_heads * num_groups);
  return true;
}

void SegmentStore::Clear() {
  codes_.Discard();
  side_.Discard();
}

}  // namespace swivel
