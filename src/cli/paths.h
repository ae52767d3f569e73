// Where things are: the plugin, programs, this executable.
#ifndef SWIVEL_CLI_PATHS_H_
#define SWIVEL_CLI_PATHS_H_

#include <string>

#include "base/status.h"

namespace swivel::cli {

// swivel::FindPlugin (SWIVEL_PLUGIN, else ../lib/ or ../lib/swivel/ beside this executable) as an absolute path: it goes into the
// environment of programs that may change their folder.
StatusOr<std::string> PluginPath();

// The path of a program: as given when it holds a slash, else the first match in PATH. kNotFound, or kInvalidArgument when it is there
// but cannot be run.
StatusOr<std::string> FindProgram(const std::string& name);

// The part after the last slash.
std::string BaseName(const std::string& path);
// The part before the last slash; "." when there is none.
std::string FolderOf(const std::string& path);

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_PATHS_H_
