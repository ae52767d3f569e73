// Finds out how a host is put together: program, library, folder or Python extension, and where its ggml is.
#ifndef SWIVEL_CLI_DOCTOR_FIND_H_
#define SWIVEL_CLI_DOCTOR_FIND_H_

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/doctor_probe.h"

namespace swivel::cli {

struct Host {
  std::string path;
  std::string what;                // "program", "static program", "shared library", "Python extension", "script", "folder"
  std::string program;             // what to start with --list-devices; empty: nothing
  std::optional<GgmlPlace> ggml;   // nothing: not found, or linked in and hidden
  std::vector<std::string> notes;  // what was found on the way, for the user
};

// `name` is a path or a program in PATH. kNotFound, kInvalidArgument (nothing of llama.cpp in it; the message says what was looked for).
StatusOr<Host> FindHost(const std::string& name);

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_DOCTOR_FIND_H_
