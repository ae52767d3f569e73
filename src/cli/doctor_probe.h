// Loads a host's ggml and the plugin in a process of their own, and says what happened.
#ifndef SWIVEL_CLI_DOCTOR_PROBE_H_
#define SWIVEL_CLI_DOCTOR_PROBE_H_

#include <string>
#include <vector>

namespace swivel::cli {

// Where a host keeps ggml.
struct GgmlPlace {
  std::string registry;               // defines ggml_backend_load: libggml.so, or one object with all of ggml in it
  std::vector<std::string> siblings;  // other libggml* beside it, in the order to load them when the registry alone does not load
  bool python = false;                // the registry wants symbols of a Python interpreter
};

struct ProbeResult {
  bool ran = false;     // ggml was loaded and answered
  std::string failure;  // why not
  std::string ggml_version;
  int api = 0;              // backend API; 0: unknown
  int backends_linked = 0;  // registered before anything was loaded: 0 means that all backends are plugins here
  bool plugin_loaded = false;
  std::vector<std::string> devices;
  std::vector<std::string> messages;  // what ggml and the plugin said meanwhile, one line each
  bool HasDevice(const std::string& name) const;
};

// Takes at most `seconds`; survives a host that hangs or crashes.
ProbeResult ProbeLibrary(const GgmlPlace& place, const std::string& plugin, int seconds);

// Lines of `text` that are not empty, at most `limit` (the last ones).
std::vector<std::string> LastLines(const std::string& text, size_t limit);

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_DOCTOR_PROBE_H_
