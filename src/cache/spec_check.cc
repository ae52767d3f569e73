// What single items of a spec cannot know of each other.
#include <algorithm>
#include <set>

#include "cache/spec_items.h"
#include "cache/spec_names.h"
#include "kernel/attend/attend.h"

namespace swivel {
namespace {

constexpr int kMostLayers = 1000;  // of layer= and boundary=

// What the transforms can pack.
Status CheckTransform(const CacheSpec& spec) {
  if (spec.transform == Transform::kNone) {
    if (spec.decay.empty() && spec.budget_bytes == 0) return Status();
    return Status::Invalid("decay= and budget= pack groups again and need a transform: transform=wht, eq or full, or a preset");
  }
  const auto packs = [](CodecId k) { return k == CodecId::kTcq2 || k == CodecId::kTcq3 || k == CodecId::kTcq4; };
  // Layers may be exceptions that take no part in the transform, but not codes that it cannot be applied to.
  const auto wrong = [&](CodecId k) { return !packs(k) && GetCodec(k).layout == Layout::kTrellis; };
  const CodecId* bad = packs(spec.k) ? nullptr : &spec.k;
  if (bad == nullptr && spec.boundary_layers > 0 && wrong(spec.boundary_codec)) bad = &spec.boundary_codec;
  for (const LayerCodec& entry : spec.layers) {
    if (bad == nullptr && entry.side == Side::kKey && wrong(entry.codec)) bad = &entry.codec;
  }
  if (bad == nullptr) return Status();
  return Status::Invalid(std::string("transform=") + kTransforms[static_cast<size_t>(spec.transform)] + " packs keys as k=tcq2, k=tcq3 or k=tcq4, not " +
                         GetCodec(*bad).name);
}

// Codecs that the heads of layer `layer` may have beside each other. Which layers are boundary layers is not known here: both cases count.
size_t MostHeadCodecs(const CacheSpec& spec, Side side, int layer) {
  std::set<CodecId> of_heads;
  for (const LayerCodec& entry : spec.layers) {
    if (entry.side == side && entry.OfHeads() && entry.first <= layer && layer <= entry.last) of_heads.insert(entry.codec);
  }
  if (of_heads.empty()) return 1;
  size_t most = 0;
  for (const int num_layers : {2 * kMostLayers, layer + 1}) {
    // In the first case the layer is far from the end, in the second it is the last.
    std::set<CodecId> all = of_heads;
    all.insert(spec.CodecFor(side, layer, num_layers));
    most = std::max(most, all.size());
  }
  return most;
}

Status CheckHeads(const CacheSpec& spec) {
  if (!spec.HasHeadCodecs()) return Status();
  if (!spec.decay.empty() || spec.budget_bytes != 0) {
    return Status::Invalid("layer=A/H:CODEC (codecs of single heads) cannot be combined with decay= or budget=, which pack whole groups again");
  }
  if (!spec.Staged()) {
    return Status::Invalid("layer=A/H:CODEC (codecs of single heads) needs a staged cache: add window=N, sinks=N or transform=, or take a preset");
  }
  for (const LayerCodec& start : spec.layers) {
    for (const int layer : {start.first, start.last + 1}) {
      const size_t codecs = MostHeadCodecs(spec, start.side, layer);
      if (codecs <= kMaxTiers) continue;
      return Status::Invalid("layer " + std::to_string(layer) + ": the heads of its " + (start.side == Side::kKey ? "keys" : "values") + " have " +
                             std::to_string(codecs) + " codecs; at most " + std::to_string(kMaxTiers) + " (that of the layer is one)");
    }
  }
  return Status();
}

// What is packed later, and what is packed as it is written.
Status CheckStaging(const CacheSpec& spec) {
  if (spec.Staged() || !spec.defer_prefill) return Status();
  return Status::Invalid("defer=prefill needs a cache that packs rows later: add window=N, sinks=N or transform=, or take a preset");
}

Status CheckStore(const CacheSpec& spec) {
  if (spec.self_tokens > 0 && !spec.SelfCalibrated()) {
    return Status::Invalid("calibration=self:" + std::to_string(spec.self_tokens) + " has nothing to calibrate: it needs transform=eq or full (a preset has it)");
  }
  if (spec.store.empty() || spec.SelfCalibrated()) return Status();
  return Status::Invalid("store=FILE keeps what a cache finds out about its keys by itself: it needs transform=eq or full (a preset has it) and calibration=self");
}

}  // namespace

Status CheckSpec(const CacheSpec& spec) {
  for (const auto check : {CheckTransform, CheckHeads, CheckStaging, CheckStore}) {
    if (Status status = check(spec); !status.ok()) return status;
  }
  return Status();
}

}  // namespace swivel
