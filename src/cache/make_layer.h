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

// `k` and `v`: the codecs of the layer; `budget_bytes`: its share of spec.budget_bytes. The stores of all tiers are made. Errors: those of the
// stores and of LayerCache.
StatusOr<std::unique_ptr<LayerCache>> MakeLayer(const CacheSpec& spec, const Codec& k, const Codec& v, const StoreShape& k_shape,
                                                const StoreShape& v_shape, size_t budget_bytes);

// The stores of the keys' tiers that take a basis; empty when keys are packed row by row.
std::vector<SegmentStore*> StoresWithBasis(LayerCache* layer);

}  // namespace swivel

#endif  // SWIVEL_CACHE_MAKE_LAYER_H_
