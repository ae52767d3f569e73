// A 64-bit hash of bytes that is the same on every machine: XXH3. For checksums and names, not against an adversary.
#ifndef SWIVEL_BASE_HASH_H_
#define SWIVEL_BASE_HASH_H_

#include <cstdint>
#include <string_view>

namespace swivel {

uint64_t Hash64(std::string_view bytes);

}  // namespace swivel

#endif  // SWIVEL_BASE_HASH_H_
