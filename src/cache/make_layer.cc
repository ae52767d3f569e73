#include "cache/make_layer.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "cache/segment_store.h"

namespace swivel {
namespace {

// One store for all heads, or one for the heads of each codec, in the order in which the codecs first occur.
StatusOr<SideStores> MakeStores(const CacheSpec& spec, Side side, LayerPlace place, const StoreShape& shape) {
  std::vector<CodecId> codecs;
  std::vector<StoreShape> shapes;
  SideStores made;
  for (int head = 0; head < shape.num_heads; ++head) {
    const CodecId codec = spec.CodecFor(side, place.ordinal, place.num_layers, head);
    const auto view = std::find(codecs.begin(), codecs.end(), codec) - codecs.begin();
    if (view == static_cast<std::ptrdiff_t>(codecs.size())) {
      codecs.push_back(codec);
      shapes.push_back(shape);
      shapes.back().num_heads = 0;
    }
    made.heads.push_back({static_cast<int>(view), shapes[static_cast<size_t>(view)].num_heads++});
  }
  for (size_t i = 0; i < codecs.size(); ++i) {
    auto store = spec.MakeStore(side, GetCodec(codecs[i]), shapes[i]);
    if (!store.ok()) return store.status();
    made.stores.push_back(std::move(*store));
  }
  if (made.stores.size() == 1) made.heads.clear();
  return made;
}

const SegmentStore* WithBasis(const LayerCache& layer, int number) { return dynamic_cast<const SegmentStore*>(&layer.store(Side::kKey, number)); }

}  // namespace

StatusOr<std::unique_ptr<LayerCache>> MakeLayer(const CacheSpec& spec, LayerPlace place, const StoreShape& k_shape, const StoreShape& v_shape,
                                                size_t budget_bytes) {
  auto k_stores = MakeStores(spec, Side::kKey, place, k_shape);
  if (!k_stores.ok()) return k_stores.status();
  auto v_stores = MakeStores(spec, Side::kValue, place, v_shape);
  if (!v_stores.ok()) return v_stores.status();
  const Codec& k = k_stores->stores[0]->codec();
  const Codec& v = v_stores->stores[0]->codec();
  StagingPolicy policy = {spec.sinks, spec.window, spec.DecayAges(k), spec.DecayAges(v), budget_bytes, spec.defer_prefill};
  auto layer = LayerCache::Create(std::move(policy), std::move(*k_stores), std::move(*v_stores));
  if (!layer.ok()) return layer.status();
  // No codec decays where heads have codecs of their own: a spec has one or the other.
  for (const auto& [side, codec, shape] : {std::tuple{Side::kKey, &k, &k_shape}, std::tuple{Side::kValue, &v, &v_shape}}) {
    for (const Codec* next : spec.DecayCodecs(*codec)) {
      auto store = spec.MakeStore(side, *next, *shape);
      if (!store.ok()) return store.status();
      (*layer)->AddTier(side, std::move(*store));
    }
  }
  return std::move(*layer);
}

bool TakesBasis(const LayerCache& layer) {
  for (int i = 0; i < layer.num_stores(Side::kKey); ++i) {
    if (WithBasis(layer, i) != nullptr) return true;
  }
  return false;
}

void SetBasis(LayerCache* layer, const std::vector<KeyTransform>& transforms) {
  for (int i = 0; i < layer->num_stores(Side::kKey); ++i) {
    auto* store = dynamic_cast<SegmentStore*>(&layer->store(Side::kKey, i));
    if (store == nullptr) continue;
    std::vector<KeyTransform> own;
    for (int head = 0; head < layer->num_heads() && !transforms.empty(); ++head) {
      // Tiers hold all heads, whatever tier one asks for.
      if (layer->Place(Side::kKey, head, i).view == i) own.push_back(transforms[static_cast<size_t>(head)]);
    }
    store->SetTransforms(std::move(own));
  }
}

bool BasisHasHalves(const LayerCache& layer) {
  for (int i = 0; i < layer.num_stores(Side::kKey); ++i) {
    if (const SegmentStore* store = WithBasis(layer, i); store != nullptr) return store->layout().count == 2;
  }
  return false;
}

}  // namespace swivel
