// Where things are: the plugin, programs, this executable.
#ifndef SWIVEL_CLI_PATHS_H_
#define SWIVEL_CLI_PATHS_H_

#include <string>

#include "base/status.h"

namespace swivel::cli {

// The absolute path of libggml-swivel.so: the environment variable SWIVEL_PLUGIN when set, else beside this executable: ../lib/,
// ../lib/swivel/, its own folder. kNotFound says where it was looked for.
StatusOr<std::string> FindPlugin();

// The path of a program: as given when it holds a slash, else the first match in PATH. kNotFound, or kInvalidArgument when it is there
// but cannot be run.
StatusOr<std::string> FindProgram(const std::string& name);

// The part after the last slash.
std::string BaseName(const std::string& path);
// The part before the last slash; "." when there is none.
std::string FolderOf(const std::string& path);

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_PATHS_H_
