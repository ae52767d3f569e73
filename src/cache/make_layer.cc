#include "cache/make_layer.h"

#include <tuple>
#include <utility>

namespace swivel {

StatusOr<std::unique_ptr<LayerCache>> MakeLayer(const CacheSpec& spec, const Codec& k, const Codec& v, const StoreShape& k_shape,
                                                const StoreShape& v_shape, size_t budget_bytes) {
  auto k_store = spec.MakeStore(Side::kKey, k, k_shape);
  if (!k_store.ok()) return k_store.status();
  auto v_store = spec.MakeStore(Side::kValue, v, v_shape);
  if (!v_store.ok()) return v_store.status();
  StagingPolicy policy = {spec.sinks, spec.window, spec.DecayAges(k), spec.DecayAges(v), budget_bytes, spec.defer_prefill};
  auto layer = LayerCache::Create(std::move(policy), std::move(*k_store), std::move(*v_store));
  if (!layer.ok()) return layer.status();
  for (const auto& [side, codec, shape] : {std::tuple{Side::kKey, &k, &k_shape}, std::tuple{Side::kValue, &v, &v_shape}}) {
    for (const Codec* next : spec.DecayCodecs(*codec)) {
      auto store = spec.MakeStore(side, *next, *shape);
      if (!store.ok()) return store.status();
      (*layer)->AddTier(side, std::move(*store));
    }
  }
  return std::move(*layer);
}

std::vector<SegmentStore*> StoresWithBasis(LayerCache* layer) {
  std::vector<SegmentStore*> stores;
  for (int tier = 0; tier < layer->num_tiers(Side::kKey); ++tier) {
    if (auto* store = dynamic_cast<SegmentStore*>(&layer->store(Side::kKey, tier)); store != nullptr) stores.push_back(store);
  }
  return stores;
}

}  // namespace swivel
