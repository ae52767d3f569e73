// The rows of one KV tensor packed by a row codec: groups of 128 cells for every (stream, KV head).
#ifndef SWIVEL_CACHE_GROUP_STORE_H_
#define SWIVEL_CACHE_GROUP_STORE_H_

#include <cstdint>
#include <memory>

#include "base/lazy_memory.h"
#include "base/status.h"
#include "cache/packed_store.h"
#include "codec/codec.h"
#include "kernel/kernels.h"

namespace swivel {

// Owns the memory (committed as rows are written). Memory order: stream, group, head, so that a growing context touches a growing
// prefix. Threads: rows of different groups may be written at once; reads may run together, but not beside a write of the same group.
class GroupStore final : public PackedStore {
 public:
  // Errors: kUnsupported (the codec cannot serve the width), kInvalidArgument (empty shape), kOutOfMemory.
  static StatusOr<std::unique_ptr<GroupStore>> Create(const Codec& codec, Side side, ScaleMode mode, const StoreShape& shape);

  const Codec& codec() const override { return *codec_; }
  Side side() const override { return side_; }
  const StoreShape& shape() const override { return shape_; }
  KvView View() const override;

  // Encodes one cell: `row` holds num_heads * width floats, heads one after the other (a row of llama.cpp's KV tensor).
  // `cell` counts over all streams: stream * num_cells + cell within the stream. Preconditions: in range; the codec encodes rows, not groups.
  void EncodeCell(const Kernels& kernels, int64_t cell, const float* row);
  // The same for head `head` alone; `row` holds `width` floats.
  void EncodeCellHead(const Kernels& kernels, int64_t cell, int head, const float* row);

  // Encodes `tokens` of a group, any codec's: as PackGroup, from floats. Row t starts t * row_stride floats behind `rows`.
  TokenMask EncodeGroup(const Kernels& kernels, int64_t group, int head, const float* rows, size_t row_stride, TokenMask tokens,
                        TokenMask packed);

  TokenMask PackGroup(const Kernels& kernels, int64_t group, int head, const GroupRows& rows, TokenMask tokens, TokenMask packed) override;
  void DecodeHead(int64_t cell, int head, float* row) const override;
  size_t GroupBytes() const override { return group_bytes_ * static_cast<size_t>(shape_.num_heads); }
  void DiscardGroups(int64_t first, int64_t count) override;
  bool CopyCells(const PackedStore& source, int64_t from, int64_t to, int64_t count) override;
  void Clear() override { memory_.Discard(); }

  size_t CapacityBytes() const override { return memory_.size(); }
  size_t ResidentBytes() const override { return memory_.ResidentBytes(); }

 private:
  GroupStore() = default;
  uint8_t* Group(int64_t cell, int head) const;
  int TokenInGroup(int64_t cell) const;
  // Cells of the group that starts at `cell`, 0 when none does. The last group of a stream may be incomplete: the cells behind it are the
  // next stream's.
  int64_t CellsOfGroupAt(int64_t cell) const;
  // Whole groups move as bytes; the codes of a lone cell may be interleaved with its neighbours'.
  bool CopiesGroup(const GroupStore& source, int64_t from, int64_t to, int64_t count) const;

  const Codec* codec_ = nullptr;
  Side side_ = Side::kKey;
  ScaleMode mode_ = ScaleMode::kMatched;
  StoreShape shape_;
  int64_t groups_per_stream_ = 0;
  size_t group_bytes_ = 0;
  LazyMemory memory_;
};

}  // namespace swivel

#endif  // SWIVEL_CACHE_GROUP_STORE_H_
