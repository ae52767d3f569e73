// The cache specification: the one grammar behind --kv and SWIVEL_KV.
//
//   spec   = codec | item { "," item }
//   item   = "k=" codec | "v=" codec | "boundary=" n ":" codec | "scale=" mode | "k_scale=" mode | "v_scale=" mode
//   codec  = a name of codec/codecs.inc     mode = matched | unbiased | ls; without: the codec's own
// A bare codec name sets K and V. Unknown keys, names and impossible values are errors that list what is accepted.
#ifndef SWIVEL_CACHE_SPEC_H_
#define SWIVEL_CACHE_SPEC_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "codec/codec.h"

namespace swivel {

struct CacheSpec {
  CodecId k = CodecId::kTurbo4;
  CodecId v = CodecId::kTurbo4;
  std::optional<ScaleMode> k_scale, v_scale;  // without: the default of each codec
  int boundary_layers = 0;                    // the first and the last n layers that have a cache use boundary_codec for K and V
  CodecId boundary_codec = CodecId::kQ8_0;

  // The codec of one layer; `ordinal` counts the `num_layers` layers that have a cache from 0.
  CodecId CodecFor(Side side, int ordinal, int num_layers) const;
  ScaleMode ScaleFor(Side side, const Codec& codec) const { return (side == Side::kKey ? k_scale : v_scale).value_or(codec.default_scale); }

  // Canonical text: ParseSpec(ToString()) gives the same spec.
  std::string ToString() const;
  // Mean bits a value of K and V over all layers.
  double BitsPerValue(int k_width, int v_width, int num_layers) const;
};

StatusOr<CacheSpec> ParseSpec(std::string_view text);
// One paragraph that states the grammar with every accepted name, for --help and errors.
std::string SpecHelp();

}  // namespace swivel

#endif  // SWIVEL_CACHE_SPEC_H_
