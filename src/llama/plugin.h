// Finds and loads libggml-swivel.so, and talks to it: which spec new contexts get, what live caches hold.
//
// The plugin is reached through ggml's registry and two names of its own, never linked: the tool exercises what every other host does.
#ifndef SWIVEL_LLAMA_PLUGIN_H_
#define SWIVEL_LLAMA_PLUGIN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

struct ggml_backend_device;

namespace swivel {

// The path of the plugin: $SWIVEL_PLUGIN, else ../lib/libggml-swivel.so or ../lib/swivel/libggml-swivel.so seen from the executable.
// kNotFound says where it was looked for.
StatusOr<std::string> FindPlugin();

// What the plugin says of one live cache (an element of "swivel_report"). Fields that it does not give are absent.
struct CacheReport {
  int64_t context = 0;  // caches of one llama context share a number, which is never used again; a window makes two of them
  std::string kv;
  int64_t tensors = 0;
  int64_t packed_tensors = 0;               // fewer than tensors: the rest is kept as plain f16
  std::optional<int64_t> packed_bytes;      // of the packed tensors, at full capacity
  std::optional<int64_t> resident_bytes;    // touched so far
  std::optional<int64_t> f16_bytes;         // of llama.cpp's f16 cache for the same cells
  std::map<std::string, int64_t> counters;  // how often something was done; whatever names the plugin gives them
};

class Plugin {
 public:
  // Loads on the first call; later calls give the same object (or the same error). Not thread-safe.
  static StatusOr<Plugin*> Get();

  ggml_backend_device* device() const { return device_; }
  const std::string& path() const { return path_; }
  // The spec of contexts created from now on.
  Status SetSpec(const std::string& spec);
  // Live caches, oldest first. Empty when the plugin cannot report.
  std::vector<CacheReport> Report() const;

 private:
  Plugin() = default;
  static StatusOr<Plugin*> Load();

  std::string path_;
  ggml_backend_device* device_ = nullptr;
  const char* (*set_kv_)(const char*) = nullptr;
  size_t (*report_)(char*, size_t) = nullptr;
};

// The text of "swivel_report" as caches; malformed text gives none. Accepts an array, or an object with the array under "caches".
std::vector<CacheReport> ParseReport(const std::string& json);

}  // namespace swivel

#endif  // SWIVEL_LLAMA_PLUGIN_H_
