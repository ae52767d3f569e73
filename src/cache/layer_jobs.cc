// What a staged cache packs and decays, and when.
#include <algorithm>
#include <numeric>

#include "base/half.h"
#include "cache/layer_cache.h"

namespace swivel {

void LayerCache::AddJobs(int64_t group, Side side, TokenMask tokens, bool decays, std::vector<PackJob>* jobs) const {
  const Half& from = half(side);
  const auto g = static_cast<size_t>(group);
  for (int head = 0; head < num_heads_; ++head) {
    jobs->push_back({group, side, head, tokens, from.packed[g], {}, from.tier[g], decays});
  }
}

void LayerCache::CollectDecay(int64_t incoming, std::vector<PackJob>* jobs) {
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
    if (!side.packed[g].Any()) bytes += GroupBytes(side, side.tier[g]);
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

bool LayerCache::FitsBudget(int64_t incoming) const {
  return policy_.budget_bytes == 0 || Bytes() + static_cast<size_t>(incoming) * (k_.row_bytes + v_.row_bytes) <= policy_.budget_bytes;
}

void LayerCache::CountDeferred() {
  // Several rounds may ask before one batch.
  const int64_t written = std::accumulate(written_count_.begin(), written_count_.end(), int64_t{0});
  if (written == deferred_at_) return;
  deferred_at_ = written;
  ++batches_deferred_;
}

std::vector<PackJob> LayerCache::CollectReady(int64_t incoming, int64_t of_a_stream) {
  std::vector<PackJob> jobs;
  if (!packing_allowed_) return jobs;
  const bool deferred = policy_.defer_prefill && of_a_stream > kDecodeTokens && FitsBudget(incoming);
  bool held_back = false;
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
    held_back |= ready && deferred;
    const TokenMask now = ready && !deferred ? both : TokenMask{};
    const TokenMask k_now = k_alone | now;
    const TokenMask v_now = v_alone | now;
    if (k_now.Any()) AddJobs(group, Side::kKey, k_now, /*decays=*/false, &jobs);
    if (v_now.Any()) AddJobs(group, Side::kValue, v_now, /*decays=*/false, &jobs);
  }
  if (held_back) CountDeferred();
  if (!deferred && (num_tiers(Side::kKey) > 1 || num_tiers(Side::kValue) > 1)) CollectDecay(incoming, &jobs);
  return jobs;
}

void LayerCache::RunJob(const Kernels& kernels, PackJob* job) {
  Half& from = half(job->side);
  const int width = this->width(job->side);
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
  const HeadPlace place = Place(job->side, job->head, job->tier);
  job->failed = store(job->side, place.view).PackGroup(kernels, job->group, place.head, rows, job->tokens, job->packed);
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
  const auto heads = static_cast<size_t>(num_heads_);
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

}  // namespace swivel
