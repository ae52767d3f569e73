#include "cli/paths.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "llama/plugin.h"

namespace swivel::cli {
namespace {

namespace fs = std::filesystem;

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

}  // namespace

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

StatusOr<std::string> PluginPath() {
  const StatusOr<std::string> found = FindPlugin();
  if (!found.ok()) return found;
  std::error_code error;
  const fs::path path = fs::absolute(found.value(), error);
  return error ? found.value() : path.lexically_normal().string();
}

StatusOr<std::string> FindProgram(const std::string& name) {
  if (name.empty()) return Status::Invalid("the program's name is empty");
  std::error_code error;
  if (name.find('/') != std::string::npos) {
    if (!fs::exists(name, error)) return Status::NotFound(name + ": no such file");
    if (fs::is_directory(name, error)) return Status::Invalid(name + ": is a folder, not a program");
    if (access(name.c_str(), X_OK) != 0) return Status::Invalid(name + ": is not executable");
    return name;
  }
  const char* path = std::getenv("PATH");
  std::string folders = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  folders += ':';
  for (size_t begin = 0; begin < folders.size();) {
    const size_t end = folders.find(':', begin);
    const std::string folder = end == begin ? "." : folders.substr(begin, end - begin);
    const std::string candidate = folder + "/" + name;
    if (IsFile(candidate) && access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  std::string hint = "; give its path";
  if (IsFile(name)) hint = "; to run the one in this folder say ./" + name;
  return Status::NotFound("no program '" + name + "' in PATH" + hint);
}

}  // namespace swivel::cli
