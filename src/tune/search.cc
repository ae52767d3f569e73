#include "tune/search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tune/search_state.h"

namespace swivel {

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
        const int64_t exact = std::min<int64_t>(layer.cells, spec.sinks + spec.ExactRows(layer.cells, layer.k_width));
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

StatusOr<TuneStep> NextStep(const TuneProblem& problem, const TuneResults& results) {
  SearchState search(problem, results);
  if (problem.limit.kld) {
    SearchKld(search);
  } else if (Status status = SearchSize(search); !status.ok()) {
    return status;
  }
  return std::move(search.step());
}

TuneRuns RunsOf(const TuneProblem& problem) {
  const int last_stages = static_cast<int>(kFinalists + 1) * (problem.search_chunks - 1) +
                          static_cast<int>(kConfirmed + 1) * (problem.chunks - problem.search_chunks);
  // Of pairs a limit on size leaves at most three that no other covers, and the preset.
  const int widths = problem.limit.kld ? 9 : 4;
  const int others = problem.limit.kld ? 34 : problem.limit.bits ? 5 + 7 : 8 + 7;
  return {widths + last_stages, std::min(problem.most_runs, widths + others + last_stages)};
}

}  // namespace swivel
