#include "tune/search_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace swivel {

int SearchState::Spare() const {
  const int finals = static_cast<int>(kFinalists + 1) * (problem_.search_chunks - 1);
  const int confirm = static_cast<int>(kConfirmed + 1) * (problem_.chunks - problem_.search_chunks);
  return problem_.most_runs - finals - confirm - planned_;
}

bool SearchState::Measured(const std::string& stage, const std::vector<NamedSpec>& specs, int first, int last) {
  TuneRequest request = {stage, {}, first, last};
  bool all = true;
  for (const NamedSpec& named : specs) {
    const std::string text = named.spec.ToString();
    if (listed_.insert(text).second) {
      const TuneCost cost = CostOf(named.spec, problem_.layers);
      step_.rows.push_back({stage, text, named.change, cost, candidates_.Fits(cost)});
    }
    if (std::find(request.specs.begin(), request.specs.end(), text) != request.specs.end()) continue;
    request.specs.push_back(text);
    for (int chunk = first; chunk <= last; ++chunk) all = all && results_.Find(text, chunk) != nullptr;
  }
  if (stage == "widths" || stage == "policies" || stage == "layers") planned_ += static_cast<int>(request.specs.size());
  if (!all) step_.request = std::move(request);
  return all;
}

double SearchState::MeanOf(const CacheSpec& spec, int first, int last) const {
  const auto mean = results_.Mean(spec.ToString(), first, last);
  return mean && std::isfinite(mean->mean) ? mean->mean : INFINITY;
}

Verdict SearchState::Compare(const CacheSpec& a, const CacheSpec& b, int first, int last, PairedDifference* difference) const {
  const auto [a_values, runs] = results_.Collect(a.ToString(), first, last);
  const auto b_values = results_.Collect(b.ToString(), first, last).first;
  const PairedDifference found = ComparePaired(a_values, b_values, runs);
  if (difference != nullptr) *difference = found;
  return found.verdict;
}

void SearchState::SortByMean(const std::vector<double>& means, std::vector<NamedSpec>* specs) {
  std::vector<size_t> order(specs->size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return means[a] < means[b]; });
  std::vector<NamedSpec> sorted;
  for (size_t i : order) sorted.push_back((*specs)[i]);
  *specs = std::move(sorted);
}

void SearchState::SortByMean(int first, int last, std::vector<NamedSpec>* specs) const {
  std::vector<double> means;
  for (const NamedSpec& named : *specs) means.push_back(MeanOf(named.spec, first, last));
  SortByMean(means, specs);
}

void SearchState::SortByCost(std::vector<NamedSpec>* specs) const {
  std::vector<double> costs;
  for (const NamedSpec& named : *specs) costs.push_back(static_cast<double>(CostOf(named.spec, problem_.layers).bytes));
  SortByMean(costs, specs);
}

void SearchState::Trim(std::vector<NamedSpec>* specs) const {
  const int spare = std::max(Spare(), 0);
  if (static_cast<int>(specs->size()) > spare) specs->resize(static_cast<size_t>(spare));
}

std::optional<NamedSpec> SearchState::Together(const CacheSpec& base, const std::vector<NamedSpec>& changes) const {
  CacheSpec all = base;
  std::string names;
  int count = 0;
  for (const NamedSpec& named : changes) {
    if (Compare(named.spec, base, 0, 0) != Verdict::kBetter) continue;
    if (named.spec.transform != base.transform) all.transform = named.spec.transform;
    if (named.spec.group_mean != base.group_mean) all.group_mean = named.spec.group_mean;
    if (named.spec.halves != base.halves) all.halves = named.spec.halves;
    if (named.spec.sinks != base.sinks) all.sinks = named.spec.sinks;
    // The first of several windows stands for all.
    if (named.spec.window != base.window && all.window == base.window) all.window = named.spec.window;
    if (named.spec.shrink != base.shrink) all.shrink = named.spec.shrink;
    names += (names.empty() ? "" : ", ") + named.change;
    ++count;
  }
  if (count < 2 || !candidates_.Fits(all)) return std::nullopt;
  return NamedSpec{names, all};
}

std::vector<NamedSpec> SearchState::AllRows() const {
  std::vector<NamedSpec> all;
  for (const TuneRow& row : step_.rows) all.push_back({row.change, ParseSpec(row.spec).value()});
  return all;
}

void SearchState::Settle(const NamedSpec& chosen, const std::optional<NamedSpec>& preset, int first, int last, TuneOutcome* outcome) {
  outcome->spec = chosen.spec.ToString();
  outcome->kld = results_.Mean(outcome->spec, first, last);
  if (preset) {
    outcome->preset = preset->change;
    outcome->preset_spec = preset->spec.ToString();
    outcome->preset_kld = results_.Mean(outcome->preset_spec, first, last);
    Compare(chosen.spec, preset->spec, first, last, &outcome->against_preset);
  }
  step_.outcome = std::move(*outcome);
}

}  // namespace swivel
