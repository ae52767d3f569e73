// The kernels for any processor.
#include "kernel/targets/includes.h"

namespace swivel::portable {
#define SWIVEL_TARGET_ID Target::kPortable
#include "kernel/vector/portable.h"
#include "kernel/targets/bodies-inl.h"
}  // namespace swivel::portable
