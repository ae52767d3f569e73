// Names that the files of the grammar share.
#ifndef SWIVEL_CACHE_SPEC_NAMES_H_
#define SWIVEL_CACHE_SPEC_NAMES_H_

#include <array>
#include <string_view>

#include "base/status.h"
#include "cache/spec.h"

namespace swivel {

// In the order of Transform.
inline constexpr std::array<const char*, 4> kTransforms = {"none", "wht", "eq", "full"};

// Errors: as of FindCodec.
inline Status SetCodec(std::string_view name, CodecId* id) {
  StatusOr<const Codec*> codec = FindCodec(name);
  if (!codec.ok()) return codec.status();
  *id = (*codec)->id;
  return Status();
}

// Null for other names.
const SpecPreset* FindPreset(std::string_view name);

}  // namespace swivel

#endif  // SWIVEL_CACHE_SPEC_NAMES_H_
