#include "cache/layer_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/half.h"

namespace swivel {

StatusOr<std::unique_ptr<LayerCache>> LayerCache::Create(StagingPolicy policy, std::unique_ptr<PackedStore> k, std::unique_ptr<PackedStore> v) {
  const StoreShape& a = k->shape();
  const StoreShape& b = v->shape();
  if (a.num_heads != b.num_heads || a.num_cells != b.num_cells || a.num_streams != b.num_streams) {
    return Status::Invalid("keys and values of one layer must have equal heads, cells and streams");
  }
  std::unique_ptr<LayerCache> cache(new LayerCache());
  cache->policy_ = std::move(policy);
  cache->groups_per_stream_ = a.groups_per_stream();
  const size_t groups = static_cast<size_t>(cache->groups_per_stream_ * a.num_streams);
  cache->k_.stores.push_back(std::move(k));
  cache->v_.stores.push_back(std::move(v));
  for (Half* side : {&cache->k_, &cache->v_}) {
    const StoreShape& shape = side->stores[0]->shape();
    side->row_bytes = sizeof(uint16_t) * static_cast<size_t>(shape.width) * shape.num_heads;
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
  cache->written_count_.resize(static_cast<size_t>(a.num_streams));
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
  from.stores[from.tier[group]]->DecodeCell(cell, floats.data());
  for (size_t i = 0; i < values; ++i) row[i] = F16FromF32(floats[i]);
}

void LayerCache::AddJobs(int64_t group, Side side, TokenMask tokens, bool decays, std::vector<PackJob>* jobs) const {
  const Half& from = half(side);
  const auto g = static_cast<size_t>(group);
  for (int head = 0; head < from.stores[0]->shape().num_heads; ++head) {
    jobs->push_back({group, side, head, tokens, from.packed[g], {}, from.tier[g], decays});
  }
}

// Rows of the exact cells, and the packed group where any cell is packed.
size_t LayerCache::Bytes(size_t group) const {
  size_t bytes = 0;
  for (const Half* side : {&k_, &v_}) {
    bytes += side->row_bytes * static_cast<size_t>(side->exact[group].Count());
    if (side->packed[group].Any()) bytes += side->stores[side->tier[group]]->GroupBytes();
  }
  return bytes;
}

size_t LayerCache::Bytes() const {
  size_t bytes = 0;
  for (size_t g = 0; g < pinned_.size(); ++g) bytes += Bytes(g);
  return bytes;
}

void LayerCache::CollectDecay(int64_t incoming, std::vector<PackJob>* jobs) const {
  // Groups that are packed and at rest; what is packed in this round may decay in the next.
  std::vector<int64_t> groups;
  for (size_t g = 0; g < pinned_.size(); ++g) {
    if (k_.packed[g].Any() && v_.packed[g].Any() && !is_open_[g]) groups.push_back(static_cast<int64_t>(g));
  }
  std::stable_sort(groups.begin(), groups.end(), [&](int64_t a, int64_t b) { return Age(static_cast<size_t>(a)) > Age(static_cast<size_t>(b)); });
  size_t bytes = policy_.budget_bytes == 0 ? 0 : Bytes() + static_cast<size_t>(incoming) * (k_.row_bytes + v_.row_bytes);
  // What this round packs gives its rows back. (Jobs so far are all of packing; a group's heads share its tokens.)
  for (const PackJob& job : *jobs) {
    if (job.head != 0 || policy_.budget_bytes == 0) continue;
    const Half& side = half(job.side);
    const auto g = static_cast<size_t>(job.group);
    bytes -= side.row_bytes * static_cast<size_t>(job.tokens.Count());
    if (!side.packed[g].Any()) bytes += side.stores[side.tier[g]]->GroupBytes();
  }
  for (const int64_t group : groups) {
    const auto g = static_cast<size_t>(group);
    for (Side s : {Side::kKey, Side::kValue}) {
      const Half& side = half(s);
      const int tier = side.tier[g];
      if (tier + 1 >= num_tiers(s)) continue;
      const auto next = static_cast<size_t>(tier);
      const std::vector<int64_t>& ages = s == Side::kKey ? policy_.k_decay_ages : policy_.v_decay_ages;
      const bool old = next < ages.size() && ages[next] >= 0 && Age(g) >= ages[next];
      const bool over = bytes > policy_.budget_bytes && policy_.budget_bytes != 0;
      if (!old && !over) continue;
      AddJobs(group, s, side.packed[g], /*decays=*/true, jobs);
      bytes -= std::min(bytes, side.stores[next]->GroupBytes() - side.stores[next + 1]->GroupBytes());
    }
  }
  bool lowest = true;
  for (const int64_t group : groups) {
    lowest = lowest && k_.tier[static_cast<size_t>(group)] + 1 == num_tiers(Side::kKey) && v_.tier[static_cast<size_t>(group)] + 1 == num_tiers(Side::kValue);
  }
  over_budget_ = over_budget_ || (policy_.budget_bytes != 0 && bytes > policy_.budget_bytes && lowest);
}

std::vector<PackJob> LayerCache::CollectReady(int64_t incoming) const {
  std::vector<PackJob> jobs;
  if (!packing_allowed_) return jobs;
  for (const int64_t group : open_) {
    const auto g = static_cast<size_t>(group);
    const TokenMask k = k_.exact[g] & ~pinned_[g];
    const TokenMask v = v_.exact[g] & ~pinned_[g];
    const TokenMask both = k & v;
    // Attention reads K and V of a cell from the same place. A shift rewrites the keys alone: these follow their values at once.
    const TokenMask k_alone = k & v_.packed[g];
    const TokenMask v_alone = v & k_.packed[g];
    const bool full = (AllCells(group) & ~(k_.exact[g] | k_.packed[g])).Any() == false;
    const bool ready = both.Any() && full && Age(g) >= policy_.window;
    const TokenMask k_now = k_alone | (ready ? both : TokenMask{});
    const TokenMask v_now = v_alone | (ready ? both : TokenMask{});
    if (k_now.Any()) AddJobs(group, Side::kKey, k_now, /*decays=*/false, &jobs);
    if (v_now.Any()) AddJobs(group, Side::kValue, v_now, /*decays=*/false, &jobs);
  }
  if (num_tiers(Side::kKey) > 1 || num_tiers(Side::kValue) > 1) CollectDecay(incoming, &jobs);
  return jobs;
}

void LayerCache::RunJob(const Kernels& kernels, PackJob* job) {
  Half& from = half(job->side);
  const int width = from.stores[0]->shape().width;
  if (job->decays) {
    std::vector<uint16_t> rows(static_cast<size_t>(kGroupTokens) * width);
    float row[kMaxHeadWidth];
    for (int token = 0; token < kGroupTokens; ++token) {
      if (!job->tokens.Has(token)) continue;
      store(job->side, job->tier).DecodeHead(FirstCell(job->group) + token, job->head, row);
      for (int i = 0; i < width; ++i) rows[static_cast<size_t>(token) * width + i] = F16FromF32(row[i]);
    }
    const GroupRows decoded = {reinterpret_cast<const uint8_t*>(rows.data()), sizeof(uint16_t) * static_cast<size_t>(width)};
    job->failed = store(job->side, job->tier + 1).PackGroup(kernels, job->group, job->head, decoded, job->tokens, {});
    return;
  }
  const size_t head_bytes = sizeof(uint16_t) * static_cast<size_t>(width);
  const GroupRows rows = {from.rows.data() + from.row_bytes * static_cast<size_t>(FirstCell(job->group)) + head_bytes * job->head, from.row_bytes};
  job->failed = store(job->side, job->tier).PackGroup(kernels, job->group, job->head, rows, job->tokens, job->packed);
}

void LayerCache::Commit(const std::vector<PackJob>& jobs) {
  // A token is packed when all heads of its keys and values are.
  for (const PackJob& job : jobs) {
    if (job.decays) continue;
    Half& side = half(job.side);
    const auto g = static_cast<size_t>(job.group);
    side.packed[g] = side.packed[g] | job.tokens;
    side.exact[g] = side.exact[g] & ~job.tokens;
  }
  for (const PackJob& job : jobs) {
    if (job.failed.Any() && !job.decays) KeepExact(job, jobs);
  }
  std::erase_if(open_, [&](int64_t group) {
    const auto g = static_cast<size_t>(group);
    is_open_[g] = ((k_.exact[g] | v_.exact[g]) & ~pinned_[g]).Any();
    return !is_open_[g];
  });
  for (const PackJob& job : jobs) {
    if (job.head != 0 || job.decays) continue;
    DiscardRows(half(job.side), job.group);
    groups_packed_ += job.side == Side::kKey ? 1 : 0;
  }
  // The heads of a group's side stand together.
  const auto heads = static_cast<size_t>(k_.stores[0]->shape().num_heads);
  for (size_t j = 0; j < jobs.size(); j += jobs[j].decays ? heads : 1) {
    if (!jobs[j].decays) continue;
    bool whole = true;
    for (size_t head = 0; head < heads; ++head) whole = whole && !jobs[j + head].failed.Any();
    if (whole) CommitDecay(jobs[j]);
  }
}

void LayerCache::CommitDecay(const PackJob& job) {
  Half& side = half(job.side);
  side.tier[static_cast<size_t>(job.group)] = static_cast<uint8_t>(job.tier + 1);
  groups_decayed_ += job.side == Side::kKey ? 1 : 0;
  // Groups share pages with their neighbours, so a run of them is given back as one.
  int64_t first = job.group, end = job.group + 1;
  while (first > 0 && side.tier[static_cast<size_t>(first - 1)] > job.tier) --first;
  while (end < static_cast<int64_t>(side.tier.size()) && side.tier[static_cast<size_t>(end)] > job.tier) ++end;
  side.stores[static_cast<size_t>(job.tier)]->DiscardGroups(first, end - first);
}

void LayerCache::KeepExact(const PackJob& failed, const std::vector<PackJob>& jobs) {
  const auto g = static_cast<size_t>(failed.group);
  for (Side side : {Side::kKey, Side::kValue}) {
    // The row is still there if this round was to pack it; if an earlier one has, it is decoded.
    TokenMask there = half(side).exact[g];
    for (const PackJob& job : jobs) {
      if (job.group == failed.group && job.side == side) there = there | job.tokens;
    }
    for (int token = 0; token < kGroupTokens; ++token) {
      if (!failed.failed.Has(token)) continue;
      const int64_t cell = FirstCell(failed.group) + token;
      if (!there.Has(token)) ReadRow(side, cell, Row(side, cell));
    }
    half(side).exact[g] = half(side).exact[g] | failed.failed;
    half(side).packed[g] = half(side).packed[g] & ~failed.failed;
  }
  pinned_[g] = pinned_[g] | failed.failed;
}

void LayerCache::DiscardRows(Half& side, int64_t group) {
  const size_t first = side.row_bytes * static_cast<size_t>(FirstCell(group));
  const TokenMask exact = side.exact[static_cast<size_t>(group)];
  // A stream need not end with a whole group: what follows its last row is another stream's.
  const int64_t cells = std::min<int64_t>(kGroupTokens, num_cells() - group % groups_per_stream_ * kGroupTokens);
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
  tiers.num_k = num_tiers(Side::kKey);
  tiers.num_v = num_tiers(Side::kValue);
  for (int t = 1; t < tiers.num_k; ++t) tiers.more_k[t - 1] = store(Side::kKey, t).View();
  for (int t = 1; t < tiers.num_v; ++t) tiers.more_v[t - 1] = store(Side::kValue, t).View();
  if (tiers.num_k > 1 || tiers.num_v > 1) {
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
  return counts;
}

}  // namespace swivel
