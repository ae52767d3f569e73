// What a figure was measured on: processor, threads, memory.
#ifndef SWIVEL_EVAL_SYSTEM_INFO_H_
#define SWIVEL_EVAL_SYSTEM_INFO_H_

#include <cstdint>
#include <optional>
#include <string>

namespace swivel {

// "AMD EPYC 9R14"; "unknown" where the system does not say.
std::string CpuName();
// Processors that this process may use.
int DefaultThreads();
// The largest resident size of this process so far (VmHWM), mapped weights included.
std::optional<int64_t> PeakRssBytes();
// Memory that can be taken without swapping: MemAvailable, or what the control group leaves if that is less.
std::optional<int64_t> AvailableMemoryBytes();

}  // namespace swivel

#endif  // SWIVEL_EVAL_SYSTEM_INFO_H_
