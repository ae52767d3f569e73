#include "cache/layer_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/half.h"

namespace swivel {

namespace {

int NumHeads(const SideStores& side) {
  int heads = 0;
  for (const auto& store : side.stores) heads += store->shape().num_heads;
  return heads;
}

Status CheckStores(const SideStores& side) {
  const StoreShape& first = side.stores[0]->shape();
  if (side.stores.size() > kMaxTiers) return Status::Invalid("the heads of a layer have more than " + std::to_string(kMaxTiers) + " codecs on one side");
  if (side.heads.size() != (side.stores.size() == 1 ? 0u : static_cast<size_t>(NumHeads(side)))) {
    return Status::Invalid("heads without a store, or stores without a head");
  }
  for (const auto& store : side.stores) {
    const StoreShape& shape = store->shape();
    if (shape.width != first.width || shape.num_cells != first.num_cells || shape.num_streams != first.num_streams) {
      return Status::Invalid("the heads of one layer must have equal widths, cells and streams");
    }
  }
  return {};
}

}  // namespace

StatusOr<std::unique_ptr<LayerCache>> LayerCache::Create(StagingPolicy policy, SideStores k, SideStores v) {
  for (const SideStores* side : {&k, &v}) {
    if (Status status = CheckStores(*side); !status.ok()) return status;
  }
  const StoreShape& a = k.stores[0]->shape();
  const StoreShape& b = v.stores[0]->shape();
  if (NumHeads(k) != NumHeads(v) || a.num_cells != b.num_cells || a.num_streams != b.num_streams) {
    return Status::Invalid("keys and values of one layer must have equal heads, cells and streams");
  }
  std::unique_ptr<LayerCache> cache(new LayerCache());
  cache->policy_ = std::move(policy);
  cache->num_heads_ = NumHeads(k);
  cache->groups_per_stream_ = a.groups_per_stream();
  const size_t groups = static_cast<size_t>(cache->groups_per_stream_ * a.num_streams);
  cache->k_.stores = std::move(k.stores);
  cache->k_.heads = std::move(k.heads);
  cache->v_.stores = std::move(v.stores);
  cache->v_.heads = std::move(v.heads);
  for (Half* side : {&cache->k_, &cache->v_}) {
    const StoreShape& shape = side->stores[0]->shape();
    side->row_bytes = sizeof(uint16_t) * static_cast<size_t>(shape.width) * cache->num_heads_;
    StatusOr<LazyMemory> rows = LazyMemory::Reserve(side->row_bytes * static_cast<size_t>(shape.num_cells * shape.num_streams));
    if (!rows.ok()) return rows.status();
    side->rows = std::move(*rows);
    side->exact.resize(groups);
    side->packed.resize(groups);
    side->tier.resize(groups);
  }
  cache->pinned_.resize(groups);
  cache->is_open_.resize(groups);
  cache->written_at_.resize(groups);
  cache->written_count_.resize(static_cast<size_t>(cache->k_.stores[0]->shape().num_streams));
  return cache;
}

TokenMask LayerCache::AllCells(int64_t group) const {
  return TokenMask::First(num_cells() - group % groups_per_stream_ * kGroupTokens);
}

void LayerCache::MarkWritten(Side side, int64_t cell, int64_t position) {
  const auto group = static_cast<size_t>(GroupOf(cell));
  const int token = TokenOf(cell);
  Half& written = half(side);
  written.exact[group].Add(token);
  written.packed[group].Remove(token);
  if (!written.packed[group].Any()) written.tier[group] = 0;  // the group starts again
  if (!is_open_[group]) open_.push_back(static_cast<int64_t>(group));
  is_open_[group] = true;
  if (side != Side::kKey) return;
  // Positions and order come with the keys; the values of a cell are written with them.
  if (position != kKeepPin) {
    if (position >= 0 && position < policy_.sinks) {
      pinned_[group].Add(token);
    } else {
      pinned_[group].Remove(token);
    }
  }
  written_at_[group] = ++written_count_[static_cast<size_t>(cell / num_cells())];
}

bool LayerCache::IsWritten(Side side, int64_t cell) const {
  const auto group = static_cast<size_t>(GroupOf(cell));
  return (half(side).exact[group] | half(side).packed[group]).Has(TokenOf(cell));
}

void LayerCache::ReadRow(Side side, int64_t cell, uint16_t* row) const {
  const Half& from = half(side);
  const auto group = static_cast<size_t>(GroupOf(cell));
  if (from.exact[group].Has(TokenOf(cell))) {
    std::memcpy(row, from.rows.data() + from.row_bytes * static_cast<size_t>(cell), from.row_bytes);
    return;
  }
  const size_t values = from.row_bytes / sizeof(uint16_t);
  if (!from.packed[group].Has(TokenOf(cell))) return std::fill(row, row + values, uint16_t{0});
  std::vector<float> floats(values);
  for (int head = 0; head < num_heads_; ++head) {
    const HeadPlace place = Place(side, head, from.tier[group]);
    store(side, place.view).DecodeHead(cell, place.head, &floats[static_cast<size_t>(head) * width(side)]);
  }
  for (size_t i = 0; i < values; ++i) row[i] = F16FromF32(floats[i]);
}

size_t LayerCache::GroupBytes(const Half& side, int tier) const {
  if (side.heads.empty()) return side.stores[static_cast<size_t>(tier)]->GroupBytes();
  size_t bytes = 0;
  for (const auto& store : side.stores) bytes += store->GroupBytes();
  return bytes;
}

size_t LayerCache::CapacityBytes(Side side) const {
  size_t bytes = 0;
  for (int i = 0; i < (half(side).heads.empty() ? 1 : num_stores(side)); ++i) bytes += store(side, i).CapacityBytes();
  return bytes;
}

size_t LayerCache::ResidentBytes(Side side) const {
  size_t bytes = 0;
  for (const auto& store : half(side).stores) bytes += store->ResidentBytes();
  return bytes;
}

// Rows of the exact cells, and the packed group where any cell is packed.
size_t LayerCache::Bytes(size_t group) const {
  size_t bytes = 0;
  for (const Half* side : {&k_, &v_}) {
    bytes += side->row_bytes * static_cast<size_t>(side->exact[group].Count());
    if (side->packed[group].Any()) bytes += GroupBytes(*side, side->tier[group]);
  }
  return bytes;
}

size_t LayerCache::Bytes() const {
  size_t bytes = 0;
  for (size_t g = 0; g < pinned_.size(); ++g) bytes += Bytes(g);
  return bytes;
}

void LayerCache::DiscardRows(Half& side, int64_t group) {
  const size_t first = side.row_bytes * static_cast<size_t>(FirstCell(group));
  const TokenMask exact = side.exact[static_cast<size_t>(group)];
  // The last group of a stream may be a part of one: what follows is the next stream's, or not ours at all.
  const int cells = AllCells(group).Count();
  // Runs of packed rows between the exact ones.
  for (int token = 0; token < cells;) {
    int end = token;
    while (end < cells && !exact.Has(end)) ++end;
    if (end > token) side.rows.DiscardRange(first + side.row_bytes * token, side.row_bytes * (end - token));
    token = end + 1;
  }
}

void LayerCache::Describe(AttendArgs* args) const {
  ExactRows& exact = args->exact;
  exact.bits = k_.exact.data()->word;
  exact.groups_per_stream = groups_per_stream_;
  exact.k = k_.rows.data();
  exact.v = v_.rows.data();
  exact.k_row_stride = k_.row_bytes;
  exact.v_row_stride = v_.row_bytes;
  exact.k_stream_stride = k_.row_bytes * static_cast<size_t>(num_cells());
  exact.v_stream_stride = v_.row_bytes * static_cast<size_t>(num_cells());
  args->k = store(Side::kKey).View();
  args->v = store(Side::kValue).View();
  PackedTiers& tiers = args->tiers;
  tiers.num_k = num_stores(Side::kKey);
  tiers.num_v = num_stores(Side::kValue);
  for (int t = 1; t < tiers.num_k; ++t) tiers.more_k[t - 1] = store(Side::kKey, t).View();
  for (int t = 1; t < tiers.num_v; ++t) tiers.more_v[t - 1] = store(Side::kValue, t).View();
  if (!k_.heads.empty()) tiers.k_heads = k_.heads.data();
  if (!v_.heads.empty()) tiers.v_heads = v_.heads.data();
  if (num_tiers(Side::kKey) > 1 || num_tiers(Side::kValue) > 1) {
    tiers.k = k_.tier.data();
    tiers.v = v_.tier.data();
  }
}

bool LayerCache::CopyCells(Side side, int64_t from, int64_t to, int64_t count) {
  Half& half_side = half(side);
  const int64_t cells = num_cells();
  if (from % cells != 0 || to % cells != 0 || count % cells != 0) return false;
  for (const auto& store : half_side.stores) {
    if (!store->CopyCells(*store, from, to, count)) return false;
  }
  const int64_t groups = count / cells * groups_per_stream_;
  const int64_t from_group = GroupOf(from), to_group = GroupOf(to);
  for (int64_t i = 0; i < groups; ++i) {
    const auto source = static_cast<size_t>(from_group + i), target = static_cast<size_t>(to_group + i);
    half_side.exact[target] = half_side.exact[source];
    half_side.packed[target] = half_side.packed[source];
    half_side.tier[target] = half_side.tier[source];
    if (is_open_[source] && !is_open_[target]) {
      open_.push_back(to_group + i);
      is_open_[target] = true;
    }
    const int64_t first_source = FirstCell(from_group + i), first_target = FirstCell(to_group + i);
    for (int token = 0; token < kGroupTokens; ++token) {
      if (half_side.exact[source].Has(token)) std::memcpy(Row(side, first_target + token), Row(side, first_source + token), half_side.row_bytes);
    }
    DiscardRows(half_side, to_group + i);
    if (side == Side::kKey) {
      pinned_[target] = pinned_[source];
      written_at_[target] = written_at_[source];
    }
  }
  if (side == Side::kKey) {
    for (int64_t i = 0; i < count / cells; ++i) written_count_[static_cast<size_t>(to / cells + i)] = written_count_[static_cast<size_t>(from / cells + i)];
  }
  return true;
}

void LayerCache::Clear(Side side) {
  Half& cleared = half(side);
  for (const auto& store : cleared.stores) store->Clear();
  std::fill(cleared.tier.begin(), cleared.tier.end(), uint8_t{0});
  cleared.rows.Discard();
  std::fill(cleared.exact.begin(), cleared.exact.end(), TokenMask{});
  std::fill(cleared.packed.begin(), cleared.packed.end(), TokenMask{});
  if (side != Side::kKey) return;
  std::fill(pinned_.begin(), pinned_.end(), TokenMask{});
  open_.clear();
  std::fill(is_open_.begin(), is_open_.end(), false);
  std::fill(written_at_.begin(), written_at_.end(), 0);
  std::fill(written_count_.begin(), written_count_.end(), 0);
  deferred_at_ = -1;
}

LayerCache::Counts LayerCache::Count() const {
  Counts counts;
  for (size_t g = 0; g < pinned_.size(); ++g) {
    counts.exact += k_.exact[g].Count();
    counts.packed += k_.packed[g].Count();
    counts.pinned += pinned_[g].Count();
  }
  counts.groups_packed = groups_packed_;
  counts.groups_decayed = groups_decayed_;
  counts.batches_deferred = batches_deferred_;
  return counts;
}

}  // namespace swivel
