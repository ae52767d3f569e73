// The search under a limit on KLD.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tune/search_state.h"

namespace swivel {
namespace {

// Pairs that miss a limit on KLD by no more than this factor may be repaired: no policy was ever worth more.
constexpr double kRepairable = 1.8;
// A cheaper cache than the preset must be cheaper by so much.
constexpr double kWorthwhile = 0.99;

// The cheapest preset that keeps the limit on KLD; else the best one.
std::optional<NamedSpec> CheapestPreset(const SearchState& search, int last) {
  const Candidates& candidates = search.candidates();
  std::vector<NamedSpec> presets;
  for (const SpecPreset& preset : SpecPresets()) presets.push_back({preset.name, candidates.Preset(preset)});
  search.SortByCost(&presets);
  for (const NamedSpec& named : presets) {
    if (search.MeanOf(named.spec, 0, last) <= *search.problem().limit.kld) return named;
  }
  return presets.empty() ? std::nullopt : std::optional(presets.back());
}

std::vector<NamedSpec> WithPreset(std::vector<NamedSpec> specs, const std::optional<NamedSpec>& preset) {
  if (preset) specs.push_back(*preset);
  return specs;
}

}  // namespace

void SearchKld(SearchState& search) {
  const Candidates& candidates = search.candidates();
  const double limit = *search.problem().limit.kld;
  std::vector<NamedSpec> pairs;
  for (int k : kTuneWidths) {
    for (int v : kTuneWidths) pairs.push_back({"K" + std::to_string(k) + " V" + std::to_string(v), candidates.Pair(k, v)});
  }
  std::vector<NamedSpec> with_presets;
  for (const SpecPreset& preset : SpecPresets()) with_presets.push_back({std::string("preset ") + preset.name, candidates.Preset(preset)});
  with_presets.insert(with_presets.end(), pairs.begin(), pairs.end());
  if (!search.Measured("widths", with_presets, 0, 0)) return;
  const auto keeps = [&](const NamedSpec& named, int last) { return search.MeanOf(named.spec, 0, last) <= limit; };
  search.SortByCost(&pairs);
  const auto found = std::find_if(pairs.begin(), pairs.end(), [&](const NamedSpec& named) { return keeps(named, 0); });
  // Where no pair keeps the limit, the best may be repaired.
  const double most_bytes = found == pairs.end() ? INFINITY : static_cast<double>(CostOf(found->spec, search.problem().layers).bytes);
  const auto cheaper = [&](const CacheSpec& spec) { return static_cast<double>(CostOf(spec, search.problem().layers).bytes) < most_bytes; };
  std::vector<NamedSpec> near_misses;
  for (const NamedSpec& named : pairs) {
    if (cheaper(named.spec) && search.MeanOf(named.spec, 0, 0) <= kRepairable * limit) near_misses.push_back(named);
  }
  search.SortByMean(0, 0, &near_misses);
  if (near_misses.size() > 2) near_misses.resize(2);

  std::vector<NamedSpec> policies;
  for (const NamedSpec& miss : near_misses) {
    for (NamedSpec& named : candidates.Policies(miss.spec)) {
      named.change = miss.change + ", " + named.change;
      if (cheaper(named.spec)) policies.push_back(std::move(named));
    }
  }
  // The pair that keeps the limit may do with less, too.
  if (found != pairs.end()) {
    for (NamedSpec& named : candidates.Policies(found->spec)) {
      named.change = found->change + ", " + named.change;
      if (cheaper(named.spec)) policies.push_back(std::move(named));
    }
  }
  search.Trim(&policies);
  if (!search.Measured("policies", policies, 0, 0)) return;

  std::vector<NamedSpec> more;
  for (const NamedSpec& miss : near_misses) {
    for (Side side : {Side::kKey, Side::kValue}) {
      const int bits = BitsOfTcq(side == Side::kKey ? miss.spec.k : miss.spec.v);
      if (bits == 4) continue;
      for (int quarters : {1, 2, 3}) {
        const int count = search.num_layers() * quarters / 4;
        if (count < 1) continue;
        NamedSpec named = {miss.change + ", " + LayersText(side == Side::kKey ? "K" : "V", bits + 1, 0, count - 1),
                       WithLayers(miss.spec, {{0, count - 1, side, Tcq(bits + 1)}})};
        if (cheaper(named.spec)) more.push_back(std::move(named));
      }
    }
  }
  search.Trim(&more);
  if (!search.Measured("layers", more, 0, 0)) return;

  // The cheapest that keep the limit so far, the cheapest preset among them.
  std::vector<NamedSpec> finals = search.AllRows();
  std::erase_if(finals, [&](const NamedSpec& named) { return !keeps(named, 0); });
  search.SortByCost(&finals);
  if (finals.empty()) {
    finals = search.AllRows();
    search.SortByMean(0, 0, &finals);
  }
  std::optional<NamedSpec> preset = CheapestPreset(search, 0);
  if (finals.size() > kFinalists) finals.resize(kFinalists);
  if (!search.Measured("finals", WithPreset(finals, preset), 0, search.last_search())) return;
  std::vector<NamedSpec> confirmed = finals;
  std::erase_if(confirmed, [&](const NamedSpec& named) { return !keeps(named, search.last_search()); });
  if (confirmed.empty()) {
    confirmed = finals;
    search.SortByMean(0, search.last_search(), &confirmed);
  }
  if (confirmed.size() > kConfirmed) confirmed.resize(kConfirmed);
  const int first = search.problem().search_chunks, last = search.problem().chunks - 1;
  if (!search.Measured("confirm", WithPreset(confirmed, preset), first, last)) return;

  // Mean and one standard error below the limit, on text that nothing above has seen.
  const auto sure = [&](const NamedSpec& named) {
    const auto mean = search.results().Mean(named.spec.ToString(), first, last);
    return mean && std::isfinite(mean->mean) && mean->mean + mean->error.value_or(0) <= limit;
  };
  TuneOutcome outcome;
  const NamedSpec* chosen = nullptr;
  for (const NamedSpec& named : confirmed) {
    if (sure(named)) {
      chosen = &named;
      break;
    }
  }
  if (preset && sure(*preset)) {
    const auto bytes = [&](const NamedSpec& named) { return static_cast<double>(CostOf(named.spec, search.problem().layers).bytes); };
    if (chosen == nullptr || bytes(*chosen) > kWorthwhile * bytes(*preset)) {
      chosen = &*preset;
      outcome.is_preset = true;
      outcome.reason = "nothing cheaper than the preset " + preset->change + " keeps the limit";
    } else {
      outcome.reason = "cheaper than the preset " + preset->change + ", and keeps the limit on text that the search has not seen";
    }
  } else if (chosen != nullptr) {
    outcome.reason = "the cheapest that keeps the limit on text that the search has not seen";
  }
  if (chosen == nullptr) {
    outcome.keeps_limit = false;
    std::vector<NamedSpec> all = WithPreset(confirmed, preset);
    search.SortByMean(first, last, &all);
    confirmed = {all[0]};
    chosen = &confirmed[0];
    outcome.reason = "nothing that was tried keeps the limit on text that the search has not seen; this is the nearest";
  }
  search.Settle(*chosen, preset, first, last, &outcome);
}

}  // namespace swivel
