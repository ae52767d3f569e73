// The kernels for neon.
#if defined(__aarch64__)
#if defined(__clang__) && __clang_major__ < 16 && !defined(__ARM_FEATURE_DOTPROD)
#define __ARM_FEATURE_DOTPROD 1  // clang before 16 declares vdotq_s32 by this macro, not by the region it is used in
#endif
#include <arm_neon.h>

#include "kernel/targets/includes.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#else
#pragma GCC target("arch=armv8.2-a+dotprod")  // "+dotprod" alone is less than vdotq_s32 asks of its caller (GCC 12)
#endif

namespace swivel::neon {
#define SWIVEL_TARGET_ID Target::kNeon
// The bodies are written in the vocabulary, so they come second.
// clang-format off
#include "kernel/vector/neon.h"
#include "kernel/targets/bodies-inl.h"
// clang-format on
}  // namespace swivel::neon

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif  // __aarch64__
