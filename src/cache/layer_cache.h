// The KV cache of one layer whose rows are kept exact before they are packed.
//
// Every row is written as f16 ("exact"). A group of 128 cells is packed once it is full and `window` more tokens have been written after it;
// its rows' memory then goes back to the system. What stays exact: the last tokens, the first `sinks` tokens of each sequence, rows that
// cannot be packed, and everything until the change of basis of the keys is known. Attention reads both kinds at once (kernel/attend).
//
// Packing may be deferred while a prompt comes in, so that all of it attends to exact rows ("defer").
//
// Old groups may be packed again with fewer bits ("decay"): by age, or as many as a byte budget asks for, the oldest first. Each step is a tier
// with stores of its own.
//
// Or heads have codecs of their own: the heads of one codec are a class with a store of its own, and nothing decays.
//
// Use, by one thread: MarkWritten for what a batch writes (the rows themselves may be written by any thread before attention reads them);
// before the next batch CollectReady, RunJob for each job (any threads), Commit.
#ifndef SWIVEL_CACHE_LAYER_CACHE_H_
#define SWIVEL_CACHE_LAYER_CACHE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/lazy_memory.h"
#include "base/status.h"
#include "cache/packed_store.h"
#include "codec/token_mask.h"
#include "kernel/attend/attend.h"

namespace swivel {

struct StagingPolicy {
  int sinks = 0;
  int window = 0;
  // Groups that this many tokens have been written after go to tier 1, 2, …; negative: only when the budget asks.
  std::vector<int64_t> k_decay_ages, v_decay_ages;
  size_t budget_bytes = 0;  // of packed groups and exact rows of this layer; 0: none
  bool defer_prefill = false;  // pack nothing before a batch of a prompt, unless the budget asks for it
};

// A batch that brings one stream more tokens than this is a piece of a prompt. Decoding brings one, speculative decoding up to 16 (what llama.cpp
// drafts at most by default); pieces of prompts have hundreds, and the last one of a prompt may be as small as it likes: the prompt is then over.
inline constexpr int64_t kDecodeTokens = 16;

// The stores of one side. With one, it holds all heads. With more, each holds a class of heads, and `heads` says where each head is.
struct SideStores {
  std::vector<std::unique_ptr<PackedStore>> stores;
  std::vector<HeadPlace> heads;
};

struct PackJob {
  int64_t group = 0;  // over all streams
  Side side = Side::kKey;
  int head = 0;
  TokenMask tokens, packed;  // to be packed; packed before
  TokenMask failed;          // set by RunJob
  int tier = 0;              // where the group is, and …
  bool decays = false;       // … whether it goes to the next one as a whole
};

class LayerCache {
 public:
  // `k` and `v` have equal numbers of heads, cells and streams, and at most kMaxTiers stores. Errors: kInvalidArgument, kOutOfMemory (address
  // space).
  static StatusOr<std::unique_ptr<LayerCache>> Create(StagingPolicy policy, SideStores k, SideStores v);
  // Appends the store of the next tier of a side without classes, at most kMaxTiers: the same shape, fewer bits.
  void AddTier(Side side, std::unique_ptr<PackedStore> store) { half(side).stores.push_back(std::move(store)); }

  // By tier or, with classes, by class.
  const PackedStore& store(Side side, int number = 0) const { return *half(side).stores[static_cast<size_t>(number)]; }
  PackedStore& store(Side side, int number = 0) { return *half(side).stores[static_cast<size_t>(number)]; }
  int num_stores(Side side) const { return static_cast<int>(half(side).stores.size()); }
  // 1 with classes.
  int num_tiers(Side side) const { return half(side).heads.empty() ? num_stores(side) : 1; }
  // Where a head's groups are that are in `tier`.
  HeadPlace Place(Side side, int head, int tier) const {
    const Half& from = half(side);
    return from.heads.empty() ? HeadPlace{tier, head} : from.heads[static_cast<size_t>(head)];
  }
  int num_heads() const { return num_heads_; }
  int width(Side side) const { return store(side).shape().width; }
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

  // What can be packed or has to decay before `incoming` tokens are written, to any one stream at most `of_a_stream` of them. Nothing while
  // packing is not allowed (see AllowPacking).
  std::vector<PackJob> CollectReady(int64_t incoming, int64_t of_a_stream);
  std::vector<PackJob> CollectReady(int64_t incoming) { return CollectReady(incoming, incoming); }
  void RunJob(const Kernels& kernels, PackJob* job);
  void Commit(const std::vector<PackJob>& jobs);
  // Keys in a calibrated basis cannot be packed before it is known.
  void AllowPacking() { packing_allowed_ = true; }
  void ForbidPacking() { packing_allowed_ = false; }
  bool packing_allowed() const { return packing_allowed_; }

  // For AttendArgs: both sides' views, all tiers, and the exact rows.
  void Describe(AttendArgs* args) const;
  // Bytes of all exact rows and packed groups.
  size_t Bytes() const;
  // Of a side's stores: packed rows of all cells as they are packed first, and what occupies memory now.
  size_t CapacityBytes(Side side) const;
  size_t ResidentBytes(Side side) const;
  // True once the budget could not be kept even with every old group in its last tier.
  bool over_budget() const { return over_budget_; }

  // Copies cells, exact or packed, to where [to, …) is; false: not possible for these ranges. Ranges may not overlap.
  bool CopyCells(Side side, int64_t from, int64_t to, int64_t count);
  // Forgets all rows of a side.
  void Clear(Side side);

  // Cells now exact and now packed (of the keys), and what was done since the start.
  struct Counts {
    int64_t exact = 0, packed = 0, pinned = 0, groups_packed = 0, groups_decayed = 0;
    int64_t batches_deferred = 0;  // before which something was ready and not packed
  };
  Counts Count() const;
  size_t ExactResidentBytes() const { return k_.rows.ResidentBytes() + v_.rows.ResidentBytes(); }

 private:
  struct Half {
    std::vector<std::unique_ptr<PackedStore>> stores;  // of each tier or class
    std::vector<HeadPlace> heads;                      // empty without classes
    std::vector<uint8_t> tier;                         // of each group; 0 with classes
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
  // One job a head.
  void AddJobs(int64_t group, Side side, TokenMask tokens, bool decays, std::vector<PackJob>* jobs) const;
  void CollectDecay(int64_t incoming, std::vector<PackJob>* jobs);
  // Exact rows of a batch with all that is there now.
  bool FitsBudget(int64_t incoming) const;
  void CountDeferred();
  int64_t Age(size_t group) const { return written_count_[group / static_cast<size_t>(groups_per_stream_)] - written_at_[group]; }
  size_t Bytes(size_t group) const;
  // A packed group of all heads.
  size_t GroupBytes(const Half& side, int tier) const;
  void CommitDecay(const PackJob& job);
  // Keeps the tokens of a job exact that could not be packed, K and V alike.
  void KeepExact(const PackJob& failed, const std::vector<PackJob>& jobs);
  void DiscardRows(Half& side, int64_t group);

  StagingPolicy policy_;
  Half k_, v_;
  int num_heads_ = 0;
  int64_t groups_per_stream_ = 0;
  std::vector<TokenMask> pinned_;       // cells that stay exact
  std::vector<int64_t> open_;           // groups that may have something to pack, in the order they were first written
  std::vector<bool> is_open_;           // of each group
  std::vector<int64_t> written_at_;     // of each group: the stream's count of written tokens after its last write
  std::vector<int64_t> written_count_;  // of each stream
  bool packing_allowed_ = false;
  bool over_budget_ = false;
  int64_t groups_packed_ = 0, groups_decayed_ = 0;
  int64_t batches_deferred_ = 0, deferred_at_ = -1;  // tokens written when the last one was counted
};

}  // namespace swivel

#endif  // SWIVEL_CACHE_LAYER_CACHE_H_
