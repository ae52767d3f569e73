// The kernels for avx512.
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernel/targets/includes.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx2,fma,f16c,bmi2"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx2,fma,f16c,bmi2")
#endif

namespace swivel::avx512 {
#define SWIVEL_TARGET_ID Target::kAvx512
// The bodies are written in the vocabulary, so they come second.
// clang-format off
#include "kernel/vector/avx512.h"
#include "kernel/targets/bodies-inl.h"
// clang-format on
}  // namespace swivel::avx512

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif  // __x86_64__
