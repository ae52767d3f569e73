// layer=: codecs of single layers, in text.
#ifndef SWIVEL_CACHE_SPEC_LAYERS_H_
#define SWIVEL_CACHE_SPEC_LAYERS_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "cache/spec.h"

namespace swivel {

// Adds what a value of layer= says ("0-3:q8_0", "5:k=tcq4"). kInvalidArgument for other text and for what another layer= has said already.
Status SetLayers(std::string_view value, CacheSpec* spec);

// The items that say `layers`, each behind a comma; both sides in one where they agree.
std::string LayerItems(const std::vector<LayerCodec>& layers);

}  // namespace swivel

#endif  // SWIVEL_CACHE_SPEC_LAYERS_H_
