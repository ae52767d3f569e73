#include "base/cpu.h"

#include <cstdlib>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace swivel {
namespace {

constexpr Target kAllTargets[] = {Target::kPortable, Target::kAvx2, Target::kAvx512, Target::kNeon};

bool Supports(Target target) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  switch (target) {
    case Target::kPortable:
      return true;
    case Target::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    case Target::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi");
    case Target::kNeon:
      return false;
  }
  return false;
#elif defined(__aarch64__)
  // Atomics and crc32 too: the region is Armv8.2 to GCC, which may use what that includes.
  constexpr unsigned long kNeeded = HWCAP_ASIMDDP | HWCAP_ATOMICS | HWCAP_ASIMDRDM | HWCAP_CRC32;
  return target == Target::kPortable || (target == Target::kNeon && (getauxval(AT_HWCAP) & kNeeded) == kNeeded);
#else
  return target == Target::kPortable;
#endif
}

}  // namespace

const char* TargetName(Target target) {
  switch (target) {
    case Target::kPortable:
      return "portable";
    case Target::kAvx2:
      return "avx2";
    case Target::kAvx512:
      return "avx512";
    case Target::kNeon:
      return "neon";
  }
  return "unknown";
}

std::vector<Target> SupportedTargets() {
  std::vector<Target> supported;
  for (Target target : kAllTargets) {
    if (Supports(target)) supported.push_back(target);
  }
  return supported;
}

StatusOr<Target> TargetFromName(const std::string& name) {
  std::string known, runs;
  bool is_known = false;
  for (Target target : kAllTargets) {
    const std::string known_name = TargetName(target);
    is_known |= name == known_name;
    known += (known.empty() ? "" : ", ") + known_name;
    if (!Supports(target)) continue;
    if (name == known_name) return target;
    runs += (runs.empty() ? "" : ", ") + known_name;
  }
  if (is_known) return Status::Unsupported("target '" + name + "' is not supported by this processor; it runs: " + runs);
  return Status::Invalid("unknown target '" + name + "'; accepted: " + known);
}

StatusOr<Target> ChooseTarget() {
  const char* forced = std::getenv("SWIVEL_TARGET");
  if (forced == nullptr) return SupportedTargets().back();
  StatusOr<Target> target = TargetFromName(forced);
  if (!target.ok()) return Status(target.status().code(), "SWIVEL_TARGET: " + target.status().message());
  return target;
}

}  // namespace swivel
