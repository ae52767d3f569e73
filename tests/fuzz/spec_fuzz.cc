// The cache spec parser: no input crashes it, and what it accepts has a canonical text that means the same.
#include <string>
#include <string_view>

#include "cache/spec.h"
#include "fuzz.h"

namespace {

#define SWIVEL_SEED(text) \
  { reinterpret_cast<const uint8_t*>(text), sizeof(text) - 1 }

bool Same(const swivel::CacheSpec& a, const swivel::CacheSpec& b) {
  return a.k == b.k && a.v == b.v && a.k_scale == b.k_scale && a.v_scale == b.v_scale && a.boundary_layers == b.boundary_layers &&
         (a.boundary_layers == 0 || a.boundary_codec == b.boundary_codec) && a.layers == b.layers;
}

}  // namespace

const FuzzSeed kFuzzSeeds[] = {SWIVEL_SEED("turbo4"),
                               SWIVEL_SEED("k=turbo4,v=turbo3,boundary=2:q8_0"),
                               SWIVEL_SEED("v=turbo2,turbo4,scale=unbiased,k_scale=ls"),
                               SWIVEL_SEED("boundary=1000:q4_0_rot,v_scale=matched"),
                               SWIVEL_SEED("k=q8_0_rot,k=f16"),
                               SWIVEL_SEED("=,:,,boundary=:"),
                               SWIVEL_SEED("balanced,layer=0-1:q8_0,layer=4:k=tcq4,layer=4:v=f16,layer=999:tcq2"),
                               SWIVEL_SEED("balanced,layer=0-1/0:q8_0,layer=4/2-3:k=tcq4,layer=4:v=f16,defer=prefill"),
                               {nullptr, 0}};

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const swivel::StatusOr<swivel::CacheSpec> spec = swivel::ParseSpec(text);
  if (!spec.ok()) {
    // A name that ends in .toml is a file, which is not there.
    FUZZ_CHECK(spec.status().code() == swivel::StatusCode::kInvalidArgument || text.find(".toml") != std::string_view::npos);
    FUZZ_CHECK(!spec.status().message().empty());
    return 0;
  }
  const swivel::CacheSpec& value = spec.value();
  FUZZ_CHECK(value.boundary_layers >= 0 && value.boundary_layers <= 1000);
  for (size_t i = 0; i < value.layers.size(); ++i) {
    const swivel::LayerCodec& entry = value.layers[i];
    FUZZ_CHECK(entry.first >= 0 && entry.first <= entry.last && entry.last < 1000);
    FUZZ_CHECK(i == 0 || value.layers[i - 1] < entry);
    FUZZ_CHECK(entry.OfHeads() ? entry.first_head >= 0 && entry.first_head <= entry.last_head && entry.last_head < 1000 : entry.last_head == entry.first_head);
    const int head = entry.OfHeads() ? entry.last_head : 1000;  // which no entry of heads has
    FUZZ_CHECK(value.CodecFor(entry.side, entry.first, 1000, head) == entry.codec);
  }
  const std::string canonical = value.ToString();
  const swivel::StatusOr<swivel::CacheSpec> again = swivel::ParseSpec(canonical);
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(Same(value, again.value()));
  FUZZ_CHECK(again.value().ToString() == canonical);
  const double bits = value.BitsPerValue(128, 64, 5);
  FUZZ_CHECK(bits > 1.0 && bits <= 16.0);
  return 0;
}
