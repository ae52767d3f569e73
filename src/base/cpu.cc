#include "base/cpu.h"

#include <cstdlib>

namespace swivel {
namespace {

constexpr Target kAllTargets[] = {Target::kPortable, Target::kAvx2, Target::kAvx512};

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
  }
  return false;
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
  std::string accepted;
  for (Target target : kAllTargets) {
    if (name == TargetName(target)) {
      if (Supports(target)) return target;
      return Status::Unsupported("target '" + name + "' is not supported by this processor");
    }
    accepted += std::string(accepted.empty() ? "" : ", ") + TargetName(target);
  }
  return Status::Invalid("unknown target '" + name + "'; accepted: " + accepted);
}

StatusOr<Target> ChooseTarget() {
  const char* forced = std::getenv("SWIVEL_TARGET");
  if (forced == nullptr) return SupportedTargets().back();
  StatusOr<Target> target = TargetFromName(forced);
  if (!target.ok()) return Status(target.status().code(), "SWIVEL_TARGET: " + target.status().message());
  return target;
}

}  // namespace swivel
