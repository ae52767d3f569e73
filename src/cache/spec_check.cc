// What single items of a spec cannot know of each other.
#include <algorithm>

#include "cache/spec_items.h"
#include "cache/spec_names.h"

namespace swivel {
namespace {

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

// What is packed later, and what is packed as it is written.
Status CheckStaging(const CacheSpec& spec) {
  if (spec.Staged() || !spec.defer_prefill) return Status();
  return Status::Invalid("defer=prefill needs a cache that packs rows later: add window=N, sinks=N or transform=, or take a preset");
}

}  // namespace

Status CheckSpec(const CacheSpec& spec) {
  const Status status = CheckTransform(spec);
  return status.ok() ? CheckStaging(spec) : status;
}

}  // namespace swivel
