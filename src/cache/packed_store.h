// The packed rows of one KV tensor, whatever packs them: row codecs (group_store.h) or groups as a whole (segment_store.h).
#ifndef SWIVEL_CACHE_PACKED_STORE_H_
#define SWIVEL_CACHE_PACKED_STORE_H_

#include <cstdint>

#include "codec/codec.h"
#include "codec/token_mask.h"
#include "kernel/kernels.h"

namespace swivel {

struct StoreShape {
  int width = 0;      // head width: values of one head's row
  int num_heads = 0;  // KV heads
  int64_t num_cells = 0;
  int num_streams = 1;

  int64_t groups_per_stream() const { return (num_cells - 1) / kGroupTokens + 1; }
  friend bool operator==(const StoreShape&, const StoreShape&) = default;
};

// f16 rows of one head of a group, in the model's basis; row t starts t * stride bytes behind the first.
struct GroupRows {
  const uint8_t* first = nullptr;
  size_t stride = 0;

  const uint16_t* row(int token) const { return reinterpret_cast<const uint16_t*>(first + static_cast<size_t>(token) * stride); }
};

// `cell` counts over all streams (stream * num_cells + cell within the stream), `group` likewise (stream * groups_per_stream + group).
// Threads: different groups may be packed at once; reads may run together, but not beside a write of the same group.
class PackedStore {
 public:
  virtual ~PackedStore() = default;

  virtual const Codec& codec() const = 0;
  virtual Side side() const = 0;
  virtual const StoreShape& shape() const = 0;
  // What the kernels read; valid until the store is destroyed or given transforms.
  virtual KvView View() const = 0;

  // Packs `tokens` of head `head` of a group; `packed` names those that hold packed rows already, which keep their meaning. Returns the
  // tokens that could not be packed (a NaN or an infinity inside, or out of the range of what the group shares): they must stay exact.
  virtual TokenMask PackGroup(const Kernels& kernels, int64_t group, int head, const GroupRows& rows, TokenMask tokens, TokenMask packed) = 0;
  // Decodes one head's row of a cell into the model's basis; `row` holds `width` floats.
  virtual void DecodeHead(int64_t cell, int head, float* row) const = 0;
  // All heads, side by side.
  void DecodeCell(int64_t cell, float* row) const {
    for (int head = 0; head < shape().num_heads; ++head) DecodeHead(cell, head, row + static_cast<size_t>(head) * shape().width);
  }
  // Bytes of all heads of a group. Groups [first, first + count) are not needed any more: the memory goes back, in whole pages.
  virtual size_t GroupBytes() const = 0;
  virtual void DiscardGroups(int64_t first, int64_t count) = 0;
  // Copies packed cells [from, from + count) to [to, …) without decoding; false: not possible for these ranges, nothing was done.
  // Ranges may not overlap. Precondition: `source` has the same shape, codec and side.
  virtual bool CopyCells(const PackedStore& source, int64_t from, int64_t to, int64_t count) = 0;
  // Every row reads as zeros again and the memory goes back to the system.
  virtual void Clear() = 0;

  virtual size_t CapacityBytes() const = 0;
  virtual size_t ResidentBytes() const = 0;
};

}  // namespace swivel

#endif  // SWIVEL_CACHE_PACKED_STORE_H_
