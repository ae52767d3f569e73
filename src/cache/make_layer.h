// A layer's staged cache as a spec asks for it.
#ifndef SWIVEL_CACHE_MAKE_LAYER_H_
#define SWIVEL_CACHE_MAKE_LAYER_H_

#include <memory>
#include <vector>

#include "base/status.h"
#include "cache/layer_cache.h"
#include "cache/segment_store.h"
#include "cache/spec.h"

namespace swivel {

// Which of the layers that have a cache.
struct LayerPlace {
  int ordinal = 0, num_layers = 1;
};

// `budget_bytes`: the layer's share of spec.budget_bytes. The stores of all tiers or classes of heads are made. Errors: those of the stores and of
// LayerCache.
StatusOr<std::unique_ptr<LayerCache>> MakeLayer(const CacheSpec& spec, LayerPlace place, const StoreShape& k_shape, const StoreShape& v_shape,
                                                size_t budget_bytes);

// True when some keys take a basis; false when all are packed row by row.
bool TakesBasis(const LayerCache& layer);
// Gives the stores of keys that take a basis those of their heads: one for each head of the layer, or none, which takes them away.
void SetBasis(LayerCache* layer, const std::vector<KeyTransform>& transforms);
// Two segments: keys are coded as halves. Precondition: TakesBasis.
bool BasisHasHalves(const LayerCache& layer);

}  // namespace swivel

#endif  // SWIVEL_CACHE_MAKE_LAYER_H_
