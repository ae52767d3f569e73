// The search under a limit on bits or bytes.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tune/search_state.h"

namespace swivel {
namespace {

// Finals and confirmation under a limit of size: the least KLD wins, if it beats the preset.
void Finish(SearchState& search, const std::optional<NamedSpec>& preset) {
  const Candidates& candidates = search.candidates();
  std::vector<NamedSpec> finals = search.AllRows();
  std::erase_if(finals, [&](const NamedSpec& named) { return !candidates.Fits(named.spec) || (preset && named.spec.ToString() == preset->spec.ToString()); });
  search.SortByMean(0, 0, &finals);
  if (finals.size() > kFinalists) finals.resize(kFinalists);
  std::vector<NamedSpec> with_preset = finals;
  if (preset) with_preset.push_back(*preset);
  if (!search.Measured("finals", with_preset, 0, search.last_search())) return;
  search.SortByMean(0, search.last_search(), &finals);
  if (finals.size() > kConfirmed) finals.resize(kConfirmed);
  std::vector<NamedSpec> confirmed = finals;
  if (preset) confirmed.push_back(*preset);
  const int first = search.problem().search_chunks, last = search.problem().chunks - 1;
  if (!search.Measured("confirm", confirmed, first, last)) return;
  search.SortByMean(first, last, &finals);

  TuneOutcome outcome;
  // Without a rival, or where none is better beyond noise, the preset.
  const NamedSpec* chosen = nullptr;
  for (const NamedSpec& named : finals) {
    if (preset && search.Compare(named.spec, preset->spec, first, last) != Verdict::kBetter) continue;
    chosen = &named;
    break;
  }
  if (chosen == nullptr) {
    chosen = preset ? &*preset : &finals[0];
    outcome.is_preset = preset.has_value();
    outcome.reason = preset ? "nothing that was tried is better than the preset " + preset->change + " beyond what this text can tell" : "";
  } else {
    outcome.reason = preset ? "better than the preset " + preset->change + " on text that the search has not seen" : "no preset is within the limit";
  }
  search.Settle(*chosen, preset, first, last, &outcome);
}

}  // namespace

Status SearchSize(SearchState& search) {
  const Candidates& candidates = search.candidates();
  std::optional<NamedSpec> preset;
  for (const SpecPreset& candidate : SpecPresets()) {
    const CacheSpec spec = candidates.Preset(candidate);
    if (!candidates.Fits(spec)) continue;
    if (preset && CostOf(spec, search.problem().layers).bits <= CostOf(preset->spec, search.problem().layers).bits) continue;
    preset = NamedSpec{candidate.name, spec};
  }
  std::vector<NamedSpec> pairs;
  for (const bool group_mean : {true, false}) {
    for (int k : kTuneWidths) {
      for (int v : kTuneWidths) {
        CacheSpec spec = candidates.Pair(k, v);
        spec.group_mean = group_mean;
        const auto covered = [&](const int more_k, const int more_v) {
          CacheSpec more = candidates.Pair(more_k, more_v);
          more.group_mean = group_mean;
          return more_k <= 4 && more_v <= 4 && candidates.Fits(more);
        };
        if (!candidates.Fits(spec) || covered(k + 1, v) || covered(k, v + 1)) continue;
        pairs.push_back({"K" + std::to_string(k) + " V" + std::to_string(v) + (group_mean ? "" : ", group_mean=off"), spec});
      }
    }
    if (!pairs.empty()) break;
  }
  if (pairs.empty()) {
    CacheSpec least = candidates.Pair(2, 2);
    least.group_mean = false;
    const TuneCost cost = CostOf(least, search.problem().layers);
    const std::string text = std::to_string(cost.bits);
    return Status::Invalid("nothing is within this limit: the least that is tried is " + least.ToString() + " with " +
                           text.substr(0, text.find('.') + 3) + " bits a packed value, " + std::to_string(cost.bytes) + " bytes");
  }
  std::vector<NamedSpec> first;
  if (preset) first.push_back({"preset " + preset->change, preset->spec});
  first.insert(first.end(), pairs.begin(), pairs.end());
  if (!search.Measured("widths", first, 0, 0)) return {};
  search.SortByMean(0, 0, &pairs);
  const NamedSpec best = pairs[0];

  std::vector<NamedSpec> policies = candidates.Policies(best.spec);
  search.Trim(&policies);
  if (!search.Measured("policies", policies, 0, 0)) return {};

  std::vector<NamedSpec> base = {best};
  base.insert(base.end(), policies.begin(), policies.end());
  const std::optional<NamedSpec> together = search.Together(best.spec, policies);
  std::vector<NamedSpec> more;
  if (together) more.push_back(*together);
  search.SortByMean(0, 0, &base);
  const bool improved = search.Compare(base[0].spec, best.spec, 0, 0) == Verdict::kBetter;
  const NamedSpec& from = together ? *together : improved ? base[0] : best;
  for (NamedSpec& named : candidates.Layers(from.spec)) {
    if (from.spec.ToString() != best.spec.ToString()) named.change = from.change + ", " + named.change;
    more.push_back(std::move(named));
  }
  search.Trim(&more);
  if (!search.Measured("layers", more, 0, 0)) return {};
  Finish(search, preset);
  return {};
}

}  // namespace swivel
