#include "cache/group_store.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/half.h"

namespace swivel {

StatusOr<std::unique_ptr<GroupStore>> GroupStore::Create(const Codec& codec, Side side, ScaleMode mode, const StoreShape& shape) {
  const Status status = CheckWidth(codec, shape.width);
  if (!status.ok()) return status;
  if (shape.num_heads < 1 || shape.num_cells < 1 || shape.num_streams < 1) {
    return Status::Invalid("a store needs at least one head, cell and stream");
  }
  std::unique_ptr<GroupStore> store(new GroupStore());
  store->codec_ = &codec;
  store->side_ = side;
  store->mode_ = mode;
  store->shape_ = shape;
  store->group_bytes_ = codec.group_bytes(shape.width);
  store->groups_per_stream_ = shape.groups_per_stream();
  size_t bytes = store->group_bytes_;
  for (int64_t count : {static_cast<int64_t>(shape.num_heads), store->groups_per_stream_, static_cast<int64_t>(shape.num_streams)}) {
    // A product that wraps around would be a small store behind large indices.
    if (__builtin_mul_overflow(bytes, count, &bytes)) {
      return Status::OutOfMemory("a store of " + std::to_string(shape.num_cells) + " cells is larger than the address space");
    }
  }
  StatusOr<LazyMemory> memory = LazyMemory::Reserve(bytes);
  if (!memory.ok()) return memory.status();
  store->memory_ = std::move(*memory);
  return store;
}

KvView GroupStore::View() const {
  KvView view;
  view.codec = codec_;
  view.width = shape_.width;
  view.base = memory_.data();
  view.strides.head = group_bytes_;
  view.strides.group = group_bytes_ * shape_.num_heads;
  view.strides.stream = view.strides.group * groups_per_stream_;
  return view;
}

uint8_t* GroupStore::Group(int64_t cell, int head) const {
  const int64_t stream = cell / shape_.num_cells;
  const int64_t group = stream * groups_per_stream_ + cell % shape_.num_cells / kGroupTokens;
  return memory_.data() + group_bytes_ * (group * shape_.num_heads + head);
}

int GroupStore::TokenInGroup(int64_t cell) const { return static_cast<int>(cell % shape_.num_cells % kGroupTokens); }

int64_t GroupStore::CellsOfGroupAt(int64_t cell) const {
  const int64_t in_stream = cell % shape_.num_cells;
  return in_stream % kGroupTokens == 0 ? std::min<int64_t>(kGroupTokens, shape_.num_cells - in_stream) : 0;
}

bool GroupStore::CopiesGroup(const GroupStore& source, int64_t from, int64_t to, int64_t count) const {
  const int64_t cells = CellsOfGroupAt(to);
  return cells > 0 && cells <= count && cells == source.CellsOfGroupAt(from);
}

void GroupStore::EncodeCellHead(const Kernels& kernels, int64_t cell, int head, const float* row) {
  kernels.encode(*codec_, row, shape_.width, side_, mode_, Group(cell, head), TokenInGroup(cell));
}

void GroupStore::EncodeCell(const Kernels& kernels, int64_t cell, const float* row) {
  for (int head = 0; head < shape_.num_heads; ++head) EncodeCellHead(kernels, cell, head, row + static_cast<size_t>(head) * shape_.width);
}

void GroupStore::DecodeHead(int64_t cell, int head, float* row) const {
  DecodeRow(*codec_, Group(cell, head), shape_.width, side_, TokenInGroup(cell), row);
}

void GroupStore::DiscardGroups(int64_t first, int64_t count) {
  memory_.DiscardRange(GroupBytes() * static_cast<size_t>(first), GroupBytes() * static_cast<size_t>(count));
}

TokenMask GroupStore::EncodeGroup(const Kernels& kernels, int64_t group, int head, const float* rows, size_t row_stride, TokenMask tokens,
                                  TokenMask packed) {
  uint8_t* target = memory_.data() + group_bytes_ * (group * shape_.num_heads + head);
  if (codec_->encodes_groups()) return codec_->encode_group(rows, row_stride, tokens, packed, shape_.width, side_, target);
  for (int token = 0; token < kGroupTokens; ++token) {
    if (tokens.Has(token)) kernels.encode(*codec_, rows + token * row_stride, shape_.width, side_, mode_, target, token);
  }
  return {};  // damaged rows are stored as such
}

TokenMask GroupStore::PackGroup(const Kernels& kernels, int64_t group, int head, const GroupRows& rows, TokenMask tokens, TokenMask packed) {
  const auto width = static_cast<size_t>(shape_.width);
  if (codec_->encodes_groups()) {
    std::vector<float> floats(kGroupTokens * width);
    for (int token = 0; token < kGroupTokens; ++token) {
      for (size_t i = 0; tokens.Has(token) && i < width; ++i) floats[token * width + i] = F32FromF16(rows.row(token)[i]);
    }
    return EncodeGroup(kernels, group, head, floats.data(), width, tokens, packed);
  }
  uint8_t* target = memory_.data() + group_bytes_ * (group * shape_.num_heads + head);
  float row[kMaxHeadWidth];
  for (int token = 0; token < kGroupTokens; ++token) {
    if (!tokens.Has(token)) continue;
    const uint16_t* half = rows.row(token);
    for (int i = 0; i < shape_.width; ++i) row[i] = F32FromF16(half[i]);
    kernels.encode(*codec_, row, shape_.width, side_, mode_, target, token);
  }
  return {};  // damaged rows are stored as such
}

bool GroupStore::CopyCells(const PackedStore& other, int64_t from, int64_t to, int64_t count) {
  const auto& source = static_cast<const GroupStore&>(other);
  for (int64_t i = 0; codec_->encodes_groups() && i < count; i += CellsOfGroupAt(to + i)) {
    if (!CopiesGroup(source, from + i, to + i, count - i)) return false;
  }
  for (int64_t i = 0; i < count;) {
    const int from_token = source.TokenInGroup(from + i);
    const int to_token = TokenInGroup(to + i);
    const bool whole = CopiesGroup(source, from + i, to + i, count - i);
    for (int head = 0; head < shape_.num_heads; ++head) {
      const uint8_t* from_group = source.Group(from + i, head);
      uint8_t* to_group = Group(to + i, head);
      if (whole) {
        std::memcpy(to_group, from_group, group_bytes_);
      } else {
        codec_->copy_row(from_group, from_token, shape_.width, side_, to_group, to_token);
      }
    }
    i += whole ? CellsOfGroupAt(to + i) : 1;
  }
  return true;
}

}  // namespace swivel
