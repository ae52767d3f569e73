#include "tune/search.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace swivel {
namespace {

constexpr int kWidths[] = {2, 3, 4};
// Finalists beside the preset, of search and of confirmation.
constexpr size_t kFinalists = 4, kConfirmed = 2;
// Pairs that miss a limit on KLD by no more than this factor may be repaired: no policy was ever worth more.
constexpr double kRepairable = 1.8;
// A cheaper cache than the preset must be cheaper by so much.
constexpr double kWorthwhile = 0.99;

CodecId Tcq(int bits) { return bits == 2 ? CodecId::kTcq2 : bits == 3 ? CodecId::kTcq3 : CodecId::kTcq4; }
int BitsOfTcq(CodecId id) { return id == CodecId::kTcq2 ? 2 : id == CodecId::kTcq3 ? 3 : 4; }

struct Named {
  std::string change;
  CacheSpec spec;
};

class Search {
 public:
  Search(const TuneProblem& problem, const TuneResults& results) : problem_(problem), results_(results) {}

  StatusOr<TuneStep> Run() {
    if (problem_.limit.kld) {
      SearchKld();
    } else if (Status status = SearchSize(); !status.ok()) {
      return status;
    }
    return std::move(step_);
  }

 private:
  bool Fits(const TuneCost& cost) const {
    if (problem_.limit.bits) return cost.bits <= *problem_.limit.bits + 1e-9;
    if (problem_.limit.bytes) return cost.bytes <= *problem_.limit.bytes;
    return true;
  }
  bool Fits(const CacheSpec& spec) const { return Fits(CostOf(spec, problem_.layers)); }
  int num_layers() const { return static_cast<int>(problem_.layers.size()); }
  int last_search() const { return problem_.search_chunks - 1; }

  CacheSpec Pair(int k, int v) const {
    CacheSpec spec = ParseSpec("balanced").value();
    spec.k = Tcq(k);
    spec.v = Tcq(v);
    spec.calibration = problem_.calibration;
    return spec;
  }
  CacheSpec Preset(const SpecPreset& preset) const {
    CacheSpec spec = ParseSpec(preset.spec).value();
    spec.calibration = problem_.calibration;
    return spec;
  }

  // What early stages may still spend without taking the last two stages' share.
  int Spare() const {
    const int finals = static_cast<int>(kFinalists + 1) * (problem_.search_chunks - 1);
    const int confirm = static_cast<int>(kConfirmed + 1) * (problem_.chunks - problem_.search_chunks);
    return problem_.most_runs - finals - confirm - planned_;
  }

  // Lists the specs as rows; false when some must be measured first: then the step asks for that.
  bool Measured(const std::string& stage, const std::vector<Named>& specs, int first, int last) {
    TuneRequest request = {stage, {}, first, last};
    bool all = true;
    for (const Named& named : specs) {
      const std::string text = named.spec.ToString();
      if (listed_.insert(text).second) {
        const TuneCost cost = CostOf(named.spec, problem_.layers);
        step_.rows.push_back({stage, text, named.change, cost, Fits(cost)});
      }
      if (std::find(request.specs.begin(), request.specs.end(), text) != request.specs.end()) continue;
      request.specs.push_back(text);
      for (int chunk = first; chunk <= last; ++chunk) all = all && results_.Find(text, chunk) != nullptr;
    }
    if (stage == "widths" || stage == "policies" || stage == "layers") planned_ += static_cast<int>(request.specs.size());
    if (!all) step_.request = std::move(request);
    return all;
  }

  double MeanOf(const CacheSpec& spec, int first, int last) const {
    const auto mean = results_.Mean(spec.ToString(), first, last);
    return mean && std::isfinite(mean->mean) ? mean->mean : INFINITY;
  }
  Verdict Compare(const CacheSpec& a, const CacheSpec& b, int first, int last, PairedDifference* difference = nullptr) const {
    const auto [a_values, runs] = results_.Collect(a.ToString(), first, last);
    const auto b_values = results_.Collect(b.ToString(), first, last).first;
    const PairedDifference found = ComparePaired(a_values, b_values, runs);
    if (difference != nullptr) *difference = found;
    return found.verdict;
  }

  static void SortByMean(const std::vector<double>& means, std::vector<Named>* specs) {
    std::vector<size_t> order(specs->size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return means[a] < means[b]; });
    std::vector<Named> sorted;
    for (size_t i : order) sorted.push_back((*specs)[i]);
    *specs = std::move(sorted);
  }
  void SortByMean(int first, int last, std::vector<Named>* specs) const {
    std::vector<double> means;
    for (const Named& named : *specs) means.push_back(MeanOf(named.spec, first, last));
    SortByMean(means, specs);
  }
  void SortByCost(std::vector<Named>* specs) const {
    std::vector<double> costs;
    for (const Named& named : *specs) costs.push_back(static_cast<double>(CostOf(named.spec, problem_.layers).bytes));
    SortByMean(costs, specs);
  }

  // One change each, the most promising first.
  std::vector<Named> Policies(const CacheSpec& base) const {
    std::vector<Named> all;
    const auto add = [&](const std::string& change, auto set) {
      CacheSpec spec = base;
      set(&spec);
      if (spec.ToString() != base.ToString() && Fits(spec)) all.push_back({change, spec});
    };
    add("transform=eq", [](CacheSpec* spec) { spec->transform = Transform::kDiagonal; });
    add("group_mean=off", [](CacheSpec* spec) { spec->group_mean = false; });
    add("sinks=16", [](CacheSpec* spec) { spec->sinks = 16; });
    add("halves=off", [](CacheSpec* spec) { spec->halves = false; });
    // The other of the two factors that are used: .3 for self-calibration, .5 for a file.
    const double shrink = base.calibration == "self" ? 0.5 : 0.3;
    add("shrink", [&](CacheSpec* spec) { spec->shrink = shrink; });
    // A window costs bytes but no bits a packed value; under a limit on bits it would win by not being counted.
    if (!problem_.limit.bits) {
      for (int window : {256, 64, 512}) add("window=" + std::to_string(window), [&](CacheSpec* spec) { spec->window = window; });
    }
    for (Named& named : all) {
      if (named.change == "shrink") named.change = base.calibration == "self" ? "shrink=.5" : "shrink=.3";
    }
    return all;
  }

  // Spends what the limit leaves on layers: as many as fit get one bit more on one side. Where nothing is left, a sixth of the layers gives a
  // bit and another sixth gets it.
  std::vector<Named> Layers(const CacheSpec& base) const {
    std::vector<Named> all;
    const int n = num_layers();
    for (Side side : {Side::kKey, Side::kValue}) {
      const CodecId now = side == Side::kKey ? base.k : base.v;
      const int bits = BitsOfTcq(now);
      if (bits == 4) continue;
      const char* name = side == Side::kKey ? "K" : "V";
      int most = 0;
      while (most + 1 < n && Fits(With(base, {{0, most, side, Tcq(bits + 1)}}))) ++most;
      if (most >= 2) {
        const int half = most / 2;
        all.push_back({fmt(name, bits + 1, 0, most - 1), With(base, {{0, most - 1, side, Tcq(bits + 1)}})});
        all.push_back({fmt(name, bits + 1, n - most, n - 1), With(base, {{n - most, n - 1, side, Tcq(bits + 1)}})});
        all.push_back({fmt(name, bits + 1, 0, half - 1) + "," + std::to_string(n - half) + "-" + std::to_string(n - 1),
                       With(base, {{0, half - 1, side, Tcq(bits + 1)}, {n - half, n - 1, side, Tcq(bits + 1)}})});
      } else if (bits > 2 && n >= 6) {
        const int part = n / 6;
        const LayerCodec first = {0, part - 1, side, Tcq(bits + 1)}, last = {n - part, n - 1, side, Tcq(bits + 1)};
        LayerCodec fewer_first = first, fewer_last = last;
        fewer_first.codec = fewer_last.codec = Tcq(bits - 1);
        all.push_back({fmt(name, bits + 1, first.first, first.last) + " " + fmt(name, bits - 1, last.first, last.last), With(base, {first, fewer_last})});
        all.push_back({fmt(name, bits - 1, first.first, first.last) + " " + fmt(name, bits + 1, last.first, last.last), With(base, {fewer_first, last})});
      }
    }
    std::erase_if(all, [&](const Named& named) { return !Fits(named.spec); });
    return all;
  }
  static std::string fmt(const char* side, int bits, int first, int last) {
    return side + std::to_string(bits) + " in " + std::to_string(first) + "-" + std::to_string(last);
  }
  static CacheSpec With(CacheSpec spec, std::vector<LayerCodec> layers) {
    spec.layers = std::move(layers);
    std::sort(spec.layers.begin(), spec.layers.end());
    return spec;
  }

  // Drops the last ones where runs are short.
  void Trim(std::vector<Named>* specs) const {
    const int spare = std::max(Spare(), 0);
    if (static_cast<int>(specs->size()) > spare) specs->resize(static_cast<size_t>(spare));
  }

  // What improved on `base` on chunk 0 beyond noise, all of it together.
  std::optional<Named> Together(const CacheSpec& base, const std::vector<Named>& changes) const {
    CacheSpec all = base;
    std::string names;
    int count = 0;
    for (const Named& named : changes) {
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
    if (count < 2 || !Fits(all)) return std::nullopt;
    return Named{names, all};
  }

  std::vector<Named> AllRows() const {
    std::vector<Named> all;
    for (const TuneRow& row : step_.rows) all.push_back({row.change, ParseSpec(row.spec).value()});
    return all;
  }

  Status SearchSize() {
    std::optional<Named> preset;
    for (const SpecPreset& candidate : SpecPresets()) {
      const CacheSpec spec = Preset(candidate);
      if (!Fits(spec)) continue;
      if (preset && CostOf(spec, problem_.layers).bits <= CostOf(preset->spec, problem_.layers).bits) continue;
      preset = Named{candidate.name, spec};
    }
    std::vector<Named> pairs;
    for (const bool group_mean : {true, false}) {
      for (int k : kWidths) {
        for (int v : kWidths) {
          CacheSpec spec = Pair(k, v);
          spec.group_mean = group_mean;
          const auto covered = [&](const int more_k, const int more_v) {
            CacheSpec more = Pair(more_k, more_v);
            more.group_mean = group_mean;
            return more_k <= 4 && more_v <= 4 && Fits(more);
          };
          if (!Fits(spec) || covered(k + 1, v) || covered(k, v + 1)) continue;
          pairs.push_back({"K" + std::to_string(k) + " V" + std::to_string(v) + (group_mean ? "" : ", group_mean=off"), spec});
        }
      }
      if (!pairs.empty()) break;
    }
    if (pairs.empty()) {
      CacheSpec least = Pair(2, 2);
      least.group_mean = false;
      const TuneCost cost = CostOf(least, problem_.layers);
      const std::string text = std::to_string(cost.bits);
      return Status::Invalid("nothing is within this limit: the least that is tried is " + least.ToString() + " with " +
                             text.substr(0, text.find('.') + 3) + " bits a packed value, " + std::to_string(cost.bytes) + " bytes");
    }
    std::vector<Named> first;
    if (preset) first.push_back({"preset " + preset->change, preset->spec});
    first.insert(first.end(), pairs.begin(), pairs.end());
    if (!Measured("widths", first, 0, 0)) return {};
    SortByMean(0, 0, &pairs);
    const Named best = pairs[0];

    std::vector<Named> policies = Policies(best.spec);
    Trim(&policies);
    if (!Measured("policies", policies, 0, 0)) return {};

    std::vector<Named> base = {best};
    base.insert(base.end(), policies.begin(), policies.end());
    const std::optional<Named> together = Together(best.spec, policies);
    std::vector<Named> more;
    if (together) more.push_back(*together);
    SortByMean(0, 0, &base);
    const bool improved = Compare(base[0].spec, best.spec, 0, 0) == Verdict::kBetter;
    const Named& from = together ? *together : improved ? base[0] : best;
    for (Named& named : Layers(from.spec)) {
      if (from.spec.ToString() != best.spec.ToString()) named.change = from.change + ", " + named.change;
      more.push_back(std::move(named));
    }
    Trim(&more);
    if (!Measured("layers", more, 0, 0)) return {};
    Finish(preset);
    return {};
  }

  // Finals and confirmation under a limit of size: the least KLD wins, if it beats the preset.
  void Finish(const std::optional<Named>& preset) {
    std::vector<Named> finals = AllRows();
    std::erase_if(finals, [&](const Named& named) { return !Fits(named.spec) || (preset && named.spec.ToString() == preset->spec.ToString()); });
    SortByMean(0, 0, &finals);
    if (finals.size() > kFinalists) finals.resize(kFinalists);
    std::vector<Named> with_preset = finals;
    if (preset) with_preset.push_back(*preset);
    if (!Measured("finals", with_preset, 0, last_search())) return;
    SortByMean(0, last_search(), &finals);
    if (finals.size() > kConfirmed) finals.resize(kConfirmed);
    std::vector<Named> confirmed = finals;
    if (preset) confirmed.push_back(*preset);
    const int first = problem_.search_chunks, last = problem_.chunks - 1;
    if (!Measured("confirm", confirmed, first, last)) return;
    SortByMean(first, last, &finals);

    TuneOutcome outcome;
    if (preset) {
      outcome.preset = preset->change;
      outcome.preset_spec = preset->spec.ToString();
    }
    // Without a rival, or where none is better beyond noise, the preset.
    const Named* chosen = nullptr;
    for (const Named& named : finals) {
      if (preset && Compare(named.spec, preset->spec, first, last) != Verdict::kBetter) continue;
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
    Settle(*chosen, preset, first, last, &outcome);
  }

  void Settle(const Named& chosen, const std::optional<Named>& preset, int first, int last, TuneOutcome* outcome) {
    outcome->spec = chosen.spec.ToString();
    outcome->kld = results_.Mean(outcome->spec, first, last);
    if (preset) {
      outcome->preset_kld = results_.Mean(outcome->preset_spec, first, last);
      Compare(chosen.spec, preset->spec, first, last, &outcome->against_preset);
    }
    step_.outcome = std::move(*outcome);
  }

  void SearchKld() {
    const double limit = *problem_.limit.kld;
    std::vector<Named> pairs;
    for (int k : kWidths) {
      for (int v : kWidths) pairs.push_back({"K" + std::to_string(k) + " V" + std::to_string(v), Pair(k, v)});
    }
    std::vector<Named> with_presets;
    for (const SpecPreset& preset : SpecPresets()) with_presets.push_back({std::string("preset ") + preset.name, Preset(preset)});
    with_presets.insert(with_presets.end(), pairs.begin(), pairs.end());
    if (!Measured("widths", with_presets, 0, 0)) return;
    const auto keeps = [&](const Named& named, int last) { return MeanOf(named.spec, 0, last) <= limit; };
    SortByCost(&pairs);
    const auto found = std::find_if(pairs.begin(), pairs.end(), [&](const Named& named) { return keeps(named, 0); });
    // Where no pair keeps the limit, the best may be repaired.
    const double most_bytes = found == pairs.end() ? INFINITY : static_cast<double>(CostOf(found->spec, problem_.layers).bytes);
    const auto cheaper = [&](const CacheSpec& spec) { return static_cast<double>(CostOf(spec, problem_.layers).bytes) < most_bytes; };
    std::vector<Named> near_misses;
    for (const Named& named : pairs) {
      if (cheaper(named.spec) && MeanOf(named.spec, 0, 0) <= kRepairable * limit) near_misses.push_back(named);
    }
    SortByMean(0, 0, &near_misses);
    if (near_misses.size() > 2) near_misses.resize(2);

    std::vector<Named> policies;
    for (const Named& miss : near_misses) {
      for (Named& named : Policies(miss.spec)) {
        named.change = miss.change + ", " + named.change;
        if (cheaper(named.spec)) policies.push_back(std::move(named));
      }
    }
    // The pair that keeps the limit may do with less, too.
    if (found != pairs.end()) {
      for (Named& named : Policies(found->spec)) {
        named.change = found->change + ", " + named.change;
        if (cheaper(named.spec)) policies.push_back(std::move(named));
      }
    }
    Trim(&policies);
    if (!Measured("policies", policies, 0, 0)) return;

    std::vector<Named> more;
    for (const Named& miss : near_misses) {
      for (Side side : {Side::kKey, Side::kValue}) {
        const int bits = BitsOfTcq(side == Side::kKey ? miss.spec.k : miss.spec.v);
        if (bits == 4) continue;
        for (int quarters : {1, 2, 3}) {
          const int count = num_layers() * quarters / 4;
          if (count < 1) continue;
          Named named = {miss.change + ", " + fmt(side == Side::kKey ? "K" : "V", bits + 1, 0, count - 1),
                         With(miss.spec, {{0, count - 1, side, Tcq(bits + 1)}})};
          if (cheaper(named.spec)) more.push_back(std::move(named));
        }
      }
    }
    Trim(&more);
    if (!Measured("layers", more, 0, 0)) return;

    // The cheapest that keep the limit so far, the cheapest preset among them.
    std::vector<Named> finals = AllRows();
    std::erase_if(finals, [&](const Named& named) { return !keeps(named, 0); });
    SortByCost(&finals);
    if (finals.empty()) {
      finals = AllRows();
      SortByMean(0, 0, &finals);
    }
    std::optional<Named> preset = CheapestPreset(0);
    if (finals.size() > kFinalists) finals.resize(kFinalists);
    if (!Measured("finals", WithPreset(finals, preset), 0, last_search())) return;
    std::vector<Named> confirmed = finals;
    std::erase_if(confirmed, [&](const Named& named) { return !keeps(named, last_search()); });
    if (confirmed.empty()) {
      confirmed = finals;
      SortByMean(0, last_search(), &confirmed);
    }
    if (confirmed.size() > kConfirmed) confirmed.resize(kConfirmed);
    const int first = problem_.search_chunks, last = problem_.chunks - 1;
    if (!Measured("confirm", WithPreset(confirmed, preset), first, last)) return;

    // Mean and one standard error below the limit, on text that nothing above has seen.
    const auto sure = [&](const Named& named) {
      const auto mean = results_.Mean(named.spec.ToString(), first, last);
      return mean && std::isfinite(mean->mean) && mean->mean + mean->error.value_or(0) <= limit;
    };
    TuneOutcome outcome;
    if (preset) {
      outcome.preset = preset->change;
      outcome.preset_spec = preset->spec.ToString();
    }
    const Named* chosen = nullptr;
    for (const Named& named : confirmed) {
      if (sure(named)) {
        chosen = &named;
        break;
      }
    }
    if (preset && sure(*preset)) {
      const auto bytes = [&](const Named& named) { return static_cast<double>(CostOf(named.spec, problem_.layers).bytes); };
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
      std::vector<Named> all = WithPreset(confirmed, preset);
      SortByMean(first, last, &all);
      confirmed = {all[0]};
      chosen = &confirmed[0];
      outcome.reason = "nothing that was tried keeps the limit on text that the search has not seen; this is the nearest";
    }
    Settle(*chosen, preset, first, last, &outcome);
  }

  // The cheapest preset that keeps the limit on KLD; else the best one.
  std::optional<Named> CheapestPreset(int last) const {
    std::vector<Named> presets;
    for (const SpecPreset& preset : SpecPresets()) presets.push_back({preset.name, Preset(preset)});
    SortByCost(&presets);
    for (const Named& named : presets) {
      if (MeanOf(named.spec, 0, last) <= *problem_.limit.kld) return named;
    }
    return presets.empty() ? std::nullopt : std::optional(presets.back());
  }
  static std::vector<Named> WithPreset(std::vector<Named> specs, const std::optional<Named>& preset) {
    if (preset) specs.push_back(*preset);
    return specs;
  }

  const TuneProblem& problem_;
  const TuneResults& results_;
  TuneStep step_;
  std::set<std::string> listed_;
  int planned_ = 0;  // runs of the first three stages
};

}  // namespace

TuneCost CostOf(const CacheSpec& spec, const std::vector<TuneLayer>& layers) {
  const int num_layers = static_cast<int>(layers.size());
  double packed_bits = 0, values = 0, exact_bytes = 0;
  for (int i = 0; i < num_layers; ++i) {
    const TuneLayer& layer = layers[static_cast<size_t>(i)];
    const int64_t groups = (layer.cells + kGroupTokens - 1) / kGroupTokens;
    for (Side side : {Side::kKey, Side::kValue}) {
      const int width = side == Side::kKey ? layer.k_width : layer.v_width;
      const double count = static_cast<double>(groups * kGroupTokens) * layer.heads_kv * width;
      if (width == 0) continue;
      packed_bits += count * spec.BitsOfLayer(side, i, num_layers, width, layer.heads_kv);
      values += count;
      if (spec.Staged()) {
        const int64_t exact = std::min<int64_t>(layer.cells, spec.sinks + spec.window + kGroupTokens);
        exact_bytes += 2.0 * static_cast<double>(exact) * layer.heads_kv * width;
      }
    }
  }
  return {values > 0 ? packed_bits / values : 0, static_cast<int64_t>(std::ceil(packed_bits / 8 + exact_bytes))};
}

const std::vector<float>* TuneResults::Find(const std::string& spec, int chunk) const {
  const auto found = kld_.find({spec, chunk});
  return found == kld_.end() ? nullptr : &found->second;
}

std::pair<std::vector<float>, std::vector<size_t>> TuneResults::Collect(const std::string& spec, int first, int last) const {
  std::pair<std::vector<float>, std::vector<size_t>> all;
  for (int chunk = first; chunk <= last; ++chunk) {
    const std::vector<float>* values = Find(spec, chunk);
    if (values == nullptr) return {};
    all.first.insert(all.first.end(), values->begin(), values->end());
    all.second.push_back(values->size());
  }
  return all;
}

std::optional<MeanError> TuneResults::Mean(const std::string& spec, int first, int last) const {
  const auto [values, runs] = Collect(spec, first, last);
  if (values.empty()) return std::nullopt;
  return MeanByBlocks(std::vector<double>(values.begin(), values.end()), runs);
}

int64_t SlotOfChunk(int chunk, int chunks, int64_t slots) {
  // Numbers with their bits in reverse (van der Corput), those that fall outside left out: a permutation of 0 … chunks-1.
  int bits = 0;
  while ((1 << bits) < chunks) ++bits;
  for (int i = 0, seen = 0; i < 1 << bits; ++i) {
    int reversed = 0;
    for (int bit = 0; bit < bits; ++bit) reversed |= (i >> bit & 1) << (bits - 1 - bit);
    if (reversed < chunks && seen++ == chunk) return reversed * slots / chunks;
  }
  return 0;
}

StatusOr<TuneStep> NextStep(const TuneProblem& problem, const TuneResults& results) { return Search(problem, results).Run(); }

TuneRuns RunsOf(const TuneProblem& problem) {
  const int last_stages = static_cast<int>(kFinalists + 1) * (problem.search_chunks - 1) +
                          static_cast<int>(kConfirmed + 1) * (problem.chunks - problem.search_chunks);
  // Of pairs a limit on size leaves at most three that no other covers, and the preset.
  const int widths = problem.limit.kld ? 9 : 4;
  const int others = problem.limit.kld ? 34 : problem.limit.bits ? 5 + 7 : 8 + 7;
  return {widths + last_stages, std::min(problem.most_runs, widths + others + last_stages)};
}

}  // namespace swivel
