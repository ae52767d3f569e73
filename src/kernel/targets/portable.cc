// The kernels for any processor.
#include "kernel/targets/includes.h"

namespace swivel::portable {
#define SWIVEL_TARGET_ID Target::kPortable
// The bodies are written in the vocabulary, so they come second.
// clang-format off
#include "kernel/vector/portable.h"
#include "kernel/targets/bodies-inl.h"
// clang-format on
}  // namespace swivel::portable
