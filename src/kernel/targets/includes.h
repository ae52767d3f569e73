// What the kernel bodies use of the rest. Included by the files of this folder *before* their target region opens, so that no inline
// function of a header is ever compiled for a target that the processor may lack.
#ifndef SWIVEL_KERNEL_TARGETS_INCLUDES_H_
#define SWIVEL_KERNEL_TARGETS_INCLUDES_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/half.h"
#include "codec/codec.h"
#include "codec/planes.h"
#include "codec/trellis_planes.h"
#include "codec/turbo.h"
#include "kernel/attend/attend.h"
#include "kernel/kernels.h"
#include "math/block_rotation.h"
#include "math/codebook.h"
#include "math/rotation.h"
#include "math/trellis.h"

#define SWIVEL_INLINE static inline __attribute__((always_inline))
#define SWIVEL_UNROLL _Pragma("GCC unroll 16")

#endif  // SWIVEL_KERNEL_TARGETS_INCLUDES_H_
