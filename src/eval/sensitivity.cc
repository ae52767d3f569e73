#include "eval/sensitivity.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "llama/cache_choice.h"
#include "llama/layout.h"

namespace swivel {
namespace {

// Contexts that live at once: a few share the run of the base, all would take a cache a layer of memory.
constexpr int kContextsAtOnce = 8;

}  // namespace

StatusOr<CacheSpec> ParseSensitivitySpec(const std::string& kv) {
  StatusOr<CacheSpec> spec = ParseSpec(kv);
  if (!spec.ok()) return spec;
  if (spec->budget_bytes > 0 || !spec->decay.empty()) {
    return Status::Invalid(fmt::format("'{}': budget= and decay= mean nothing in a single layer; leave them out", kv));
  }
  return spec;
}

CacheSpec OnlyLayer(const CacheSpec& spec, Side side, int ordinal, int num_layers) {
  // The exceptions are the other layers, not this one: keys of a transform's kind must stay what the spec says first.
  CacheSpec only = spec;
  only.boundary_layers = 0;
  only.layers.clear();
  auto except = [&only](Side which, int first, int last, CodecId codec) {
    if (first <= last) only.layers.push_back({first, last, which, codec});
  };
  except(side == Side::kKey ? Side::kValue : Side::kKey, 0, num_layers - 1, CodecId::kF16);
  except(side, 0, ordinal - 1, CodecId::kF16);
  except(side, ordinal, ordinal, spec.CodecFor(side, ordinal, num_layers));
  except(side, ordinal + 1, num_layers - 1, CodecId::kF16);
  std::sort(only.layers.begin(), only.layers.end());
  return only;
}

StatusOr<LayerSensitivity> EvaluateSensitivity(ModelPair& models, std::span<const Token> tokens, const std::string& kv,
                                               const QualityOptions& options, Store* store, Progress* progress) {
  StatusOr<CacheSpec> spec = ParseSensitivitySpec(kv);
  if (!spec.ok()) return spec.status();
  StatusOr<Model*> stock = models.For(*ParseCacheChoice("f16"));
  if (!stock.ok()) return stock.status();
  StatusOr<CacheLayout> layout = ProbeLayout(**stock, options.context_tokens, options.threads);
  if (!layout.ok()) return layout.status();
  const int num_layers = static_cast<int>(layout->tensors.size()) / 2;

  QualityOptions one_chunk = options;
  one_chunk.chunks = 1;
  one_chunk.decode_tokens = 0;
  one_chunk.trajectories = 0;
  one_chunk.max_contexts = kContextsAtOnce;
  std::vector<Candidate> candidates;
  for (const Side side : {Side::kKey, Side::kValue}) {
    for (int layer = 0; layer < num_layers; ++layer) {
      StatusOr<CacheChoice> choice = ParseCacheChoice("swivel:" + OnlyLayer(*spec, side, layer, num_layers).ToString());
      if (!choice.ok()) return choice.status();
      candidates.push_back({*choice, /*must_run=*/true});
    }
  }
  StatusOr<QualityReport> report = EvaluateQuality(models, tokens, candidates, one_chunk, store, progress);
  if (!report.ok()) return report.status();

  LayerSensitivity result;
  result.kv = kv;
  for (size_t i = 1; i < report->caches.size(); ++i) {
    const Summary& kld = report->caches[i].prefill.kld;
    (i <= static_cast<size_t>(num_layers) ? result.k : result.v).push_back(kld.invalid == 0 ? kld.mean : std::nullopt);
    result.positions = kld.positions;
  }
  return result;
}

}  // namespace swivel
