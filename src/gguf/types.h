// Sizes of ggml's tensor types. Private to src/gguf.
#ifndef SWIVEL_GGUF_TYPES_H_
#define SWIVEL_GGUF_TYPES_H_

#include <cstdint>
#include <optional>

#include "gguf/header.h"

namespace swivel::gguf {

// Bytes of the tensor's data; nothing for an unknown type or a size that does not fit 64 bits.
std::optional<uint64_t> BytesOf(const Tensor& tensor);

}  // namespace swivel::gguf

#endif  // SWIVEL_GGUF_TYPES_H_
