#include "base/hash.h"

// The functions are compiled in: the plugin is loaded by programs that have no libxxhash.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace swivel {

uint64_t Hash64(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace swivel
