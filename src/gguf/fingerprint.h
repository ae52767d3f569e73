// A number that tells one model from another, and is the same for all quantisations of it.
#ifndef SWIVEL_GGUF_FINGERPRINT_H_
#define SWIVEL_GGUF_FINGERPRINT_H_

#include <cstdint>
#include <string>

#include "base/status.h"

namespace swivel {

// Hash64 of the architecture, numbers of blocks, query heads and KV heads, widths of heads, rope base, size of the vocabulary, and the
// bytes of `output_norm.weight` and `blk.0.attn_norm.weight` (one of them must exist): vectors that quantisers leave in F32, and that
// differ between models of one shape. A LoRA merged into the weights leaves them as they are, so it shares the fingerprint of its base.
//
// Reads the header and these two tensors. Errors: those of ReadModelHeader, kInvalidArgument for a header that ends early or tensors that
// are not where it says, kUnsupported for a model that has neither of the two tensors.
StatusOr<uint64_t> ModelFingerprint(const std::string& gguf_path);

}  // namespace swivel

#endif  // SWIVEL_GGUF_FINGERPRINT_H_
