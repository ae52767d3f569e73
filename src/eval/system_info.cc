#include "eval/system_info.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

namespace swivel {
namespace {

// The text behind "key" and a colon in a file of "key : value" lines.
std::optional<std::string> Field(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return std::nullopt;
}

// "123 kB" as bytes.
std::optional<int64_t> KilobyteField(const char* path, const std::string& key) {
  const std::optional<std::string> text = Field(path, key);
  if (!text) return std::nullopt;
  return std::strtoll(text->c_str(), nullptr, 10) * 1024;
}

std::optional<int64_t> NumberIn(const char* path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // absent, or "max"
}

// Seconds that all processors were not idle, since boot.
std::optional<double> BusySeconds() {
  std::ifstream file("/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  if (!(file >> name >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal)) return std::nullopt;
  return (user + nice + system + irq + softirq + steal) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Seconds of this process and of its children that have ended.
double OwnSeconds() {
  double seconds = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage = {};
    getrusage(who, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
      seconds += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    }
  }
  return seconds;
}

}  // namespace

OthersBusy::OthersBusy() : begin_busy_(BusySeconds()), begin_own_(OwnSeconds()), begin_(std::chrono::steady_clock::now()) {}

std::optional<double> OthersBusy::Processors() const {
  const std::optional<double> busy = BusySeconds();
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  if (!busy || !begin_busy_ || elapsed <= 0) return std::nullopt;
  // Both clocks count in ticks, so a short run may come out a little below zero.
  return std::max(0.0, (*busy - *begin_busy_ - (OwnSeconds() - begin_own_)) / elapsed);
}

std::string CpuName() { return Field("/proc/cpuinfo", "model name").value_or("unknown"); }

int DefaultThreads() {
  // hardware_concurrency() may count processors that taskset or a control group has taken away; threads that share one wait in busy loops.
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::optional<int64_t> PeakRssBytes() { return KilobyteField("/proc/self/status", "VmHWM"); }

std::optional<int64_t> AvailableMemoryBytes() {
  std::optional<int64_t> available = KilobyteField("/proc/meminfo", "MemAvailable");
  const std::optional<int64_t> limit = NumberIn("/sys/fs/cgroup/memory.max");
  const std::optional<int64_t> used = NumberIn("/sys/fs/cgroup/memory.current");
  if (limit && used) available = std::min(available.value_or(INT64_MAX), *limit - *used);
  return available;
}

}  // namespace swivel
