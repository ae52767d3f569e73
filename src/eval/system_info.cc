#include "eval/system_info.h"

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

}  // namespace

std::string CpuName() { return Field("/proc/cpuinfo", "model name").value_or("unknown"); }

int DefaultThreads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

std::optional<int64_t> PeakRssBytes() { return KilobyteField("/proc/self/status", "VmHWM"); }

std::optional<int64_t> AvailableMemoryBytes() {
  std::optional<int64_t> available = KilobyteField("/proc/meminfo", "MemAvailable");
  const std::optional<int64_t> limit = NumberIn("/sys/fs/cgroup/memory.max");
  const std::optional<int64_t> used = NumberIn("/sys/fs/cgroup/memory.current");
  if (limit && used) available = std::min(available.value_or(INT64_MAX), *limit - *used);
  return available;
}

}  // namespace swivel
