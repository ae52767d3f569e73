// What a figure was measured on: processor, threads, memory.
#ifndef SWIVEL_EVAL_SYSTEM_INFO_H_
#define SWIVEL_EVAL_SYSTEM_INFO_H_

#include <chrono>
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

// How much of the machine other processes (and, in a virtual machine, other machines) used since the object was made. Cheap.
class OthersBusy {
 public:
  OthersBusy();
  // Processors, on average; absent where the system does not say.
  std::optional<double> Processors() const;

 private:
  std::optional<double> begin_busy_;  // seconds of all processors
  double begin_own_ = 0;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace swivel

#endif  // SWIVEL_EVAL_SYSTEM_INFO_H_
