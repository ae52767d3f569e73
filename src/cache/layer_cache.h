// The KV cache of one layer whose rows are kept exact before they are packed.
//
// Every row is written as f16 ("exact"). A group of 128 cells is packed once it is full and `window` more tokens have been written after it;
// its rows' memory then goes back to the system. What stays exact: the last tokens, the first `sinks` tokens of each sequence, rows that
// cannot be packed, and everything until the change of basis of the keys is known. Attention reads both kinds at once (kernel/attend).
//
// Use, by one thread: MarkWritten for what a batch writes (the rows themselves may be written by any thread before attention reads them);
// before the next batch CollectReady, RunJob for each job (any threads), Commit.
#ifndef SWIVEL_CACHE_LAYER_CACHE_H_
#define SWIVEL_CACHE_LAYER_CACHE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/lazy_memory.h"
#include "base/status.h"
#include "cache/packed_store.h"
#include "cache/token_mask.h"
#include "kernel/attend/attend.h"

namespace swivel {

struct StagingPolicy {
  int sinks = 0;
  int window = 0;
};

struct PackJob {
  int64_t group = 0;  // over all streams
  Side side = Side::kKey;
  int head = 0;
  TokenMask tokens, packed;  // to be packed; packed before
  TokenMask failed;          // set by RunJob
};

class LayerCache {
 public:
  // `k` and `v` have equal numbers of heads, cells and streams. Errors: kInvalidArgument, kOutOfMemory (address space).
  static StatusOr<std::unique_ptr<LayerCache>> Create(StagingPolicy policy, std::unique_ptr<PackedStore> k, std::unique_ptr<PackedStore> v);

  const PackedStore& store(Side side) const { return *half(side).store; }
  PackedStore& store(Side side) { return *half(side).store; }
  int64_t num_cells() const { return store(Side::kKey).shape().num_cells; }

  // The exact row of a cell (over all streams): num_heads * width halves.
  uint16_t* Row(Side side, int64_t cell) { return reinterpret_cast<uint16_t*>(half(side).rows.data() + RowBytes(side) * static_cast<size_t>(cell)); }
  size_t RowBytes(Side side) const { return half(side).row_bytes; }

  // Says that the exact row of `cell` holds the row from now on. A position below `sinks` keeps it exact for good; kKeepPin leaves that as
  // it is (a row that was changed in place), and kNoPosition is not a first token.
  static constexpr int64_t kNoPosition = -1, kKeepPin = -2;
  void MarkWritten(Side side, int64_t cell, int64_t position);
  bool IsWritten(Side side, int64_t cell) const;  // since the last Clear
  // Stays exact for good: a sequence's first token, or a row that cannot be packed.
  bool IsPinned(int64_t cell) const { return pinned_[static_cast<size_t>(GroupOf(cell))].Has(TokenOf(cell)); }

  // The row of a cell in f16, exact or decoded; zeros when never written.
  void ReadRow(Side side, int64_t cell, uint16_t* row) const;

  // Appends what can be packed now; `all`: without regard to the window. Nothing while packing is not allowed (see AllowPacking).
  void CollectReady(bool all, std::vector<PackJob>* jobs) const;
  void RunJob(const Kernels& kernels, PackJob* job);
  void Commit(const std::vector<PackJob>& jobs);
  // Keys in a calibrated basis cannot be packed before it is known.
  void AllowPacking() { packing_allowed_ = true; }
  void ForbidPacking() { packing_allowed_ = false; }
  bool packing_allowed() const { return packing_allowed_; }

  // For AttendArgs.
  ExactRows Exact() const;

  // Copies cells, exact or packed, to where [to, …) is; false: not possible for these ranges. Ranges may not overlap.
  bool CopyCells(Side side, int64_t from, int64_t to, int64_t count);
  // Forgets all rows of a side.
  void Clear(Side side);

  // Cells now exact and now packed (of the keys), and groups packed since the start.
  struct Counts {
    int64_t exact = 0, packed = 0, pinned = 0, groups_packed = 0;
  };
  Counts Count() const;
  size_t ExactResidentBytes() const { return k_.rows.ResidentBytes() + v_.rows.ResidentBytes(); }

 private:
  struct Half {
    std::unique_ptr<PackedStore> store;
    LazyMemory rows;
    size_t row_bytes = 0;
    std::vector<TokenMask> exact, packed;  // of each group; packed: the codes of the cell are valid
  };
  Half& half(Side side) { return side == Side::kKey ? k_ : v_; }
  const Half& half(Side side) const { return side == Side::kKey ? k_ : v_; }

  LayerCache() = default;
  int64_t GroupOf(int64_t cell) const { return cell / num_cells() * groups_per_stream_ + cell % num_cells() / kGroupTokens; }
  int TokenOf(int64_t cell) const { return static_cast<int>(cell % num_cells() % kGroupTokens); }
  int64_t FirstCell(int64_t group) const { return group / groups_per_stream_ * num_cells() + group % groups_per_stream_ * kGroupTokens; }
  TokenMask AllCells(int64_t group) const;
  void AddJobs(int64_t group, Side side, TokenMask tokens, std::vector<PackJob>* jobs) const;
  // Keeps the tokens of a job exact that could not be packed, K and V alike.
  void KeepExact(const PackJob& failed, const std::vector<PackJob>& jobs);
  void DiscardRows(Half& side, int64_t group);

  StagingPolicy policy_;
  Half k_, v_;
  int64_t groups_per_stream_ = 0;
  std::vector<TokenMask> pinned_;       // cells that stay exact
  std::vector<int64_t> open_;           // groups that may have something to pack, in the order they were first written
  std::vector<bool> is_open_;           // of each group
  std::vector<int64_t> written_at_;     // of each group: the stream's count of written tokens after its last write
  std::vector<int64_t> written_count_;  // of each stream
  bool packing_allowed_ = false;
  int64_t groups_packed_ = 0;
};

}  // namespace swivel

#endif  // SWIVEL_CACHE_LAYER_CACHE_H_
