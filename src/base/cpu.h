// Which kernel targets this processor can run, and which one is in force.
#ifndef SWIVEL_BASE_CPU_H_
#define SWIVEL_BASE_CPU_H_

#include <string>
#include <vector>

#include "base/status.h"

namespace swivel {

enum class Target { kPortable, kAvx2, kAvx512, kNeon };

// "portable", "avx2", "avx512", "neon".
const char* TargetName(Target target);

// Targets that this processor and operating system can run, slowest first; always holds kPortable.
std::vector<Target> SupportedTargets();

// The target for a name; kInvalidArgument names the accepted ones, kUnsupported says that this processor lacks it.
StatusOr<Target> TargetFromName(const std::string& name);

// The best supported target, or the one that the environment variable SWIVEL_TARGET names. A name that is wrong or that this
// processor cannot run is an error, never a silent fallback.
StatusOr<Target> ChooseTarget();

}  // namespace swivel

#endif  // SWIVEL_BASE_CPU_H_
