#include "eval/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include <fmt/format.h>

namespace swivel {
namespace {

namespace fs = std::filesystem;

Status Failure(const char* what, const std::string& path) {
  return Status::Io(fmt::format("cannot {} '{}': {}", what, path, std::strerror(errno)));
}

// A rename over /dev/null, or over /dev/stdout that leads to a file, would replace the device by that file.
bool IsSpecial(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status) || fs::is_directory(status)) return false;
  return !fs::is_regular_file(status) || path.rfind("/dev/", 0) == 0 || path.rfind("/proc/", 0) == 0;
}

// A link stays a link; what it leads to is replaced.
std::string Resolve(const std::string& path) {
  std::error_code error;
  const fs::path resolved = fs::canonical(path, error);
  return error || IsSpecial(path) ? path : resolved.string();
}

std::string PartialName(const std::string& path) { return fmt::format("{}.tmp.{}", path, getpid()); }

Status WriteTo(const std::string& name, int flags, std::string_view content) {
  const int file = open(name.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666);
  if (file < 0) return Failure("open", name);
  while (!content.empty()) {
    const ssize_t count = write(file, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const Status status = Failure("write", name);
      close(file);
      return status;
    }
    content.remove_prefix(static_cast<size_t>(count));
  }
  if (close(file) != 0) return Failure("write", name);
  return {};
}

}  // namespace

Status CheckWritable(const std::string& given) {
  const std::string path = Resolve(given);
  std::error_code error;
  if (fs::is_directory(path, error)) return Status::Io(fmt::format("cannot write '{}': it is a folder", path));
  if (IsSpecial(path)) {
    return access(path.c_str(), W_OK) == 0 ? Status() : Failure("write", path);
  }
  const std::string partial = PartialName(path);
  const int file = open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return Status::Io(fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
  close(file);
  unlink(partial.c_str());
  return {};
}

Status WriteFile(const std::string& given, std::string_view content) {
  const std::string path = Resolve(given);
  if (IsSpecial(path)) return WriteTo(path, O_APPEND, content);
  const std::string partial = PartialName(path);
  Status status = WriteTo(partial, O_CREAT | O_TRUNC, content);
  if (status.ok() && std::rename(partial.c_str(), path.c_str()) != 0) status = Failure("replace", path);
  if (!status.ok()) unlink(partial.c_str());
  return status;
}

StatusOr<std::string> ReadFile(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return Status::Invalid(fmt::format("'{}' is a folder", path));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file == nullptr) {
    if (errno == ENOENT) return Status::NotFound(fmt::format("'{}' does not exist", path));
    return Failure("read", path);
  }
  std::string content;
  char buffer[1 << 16];
  size_t count;
  while ((count = std::fread(buffer, 1, sizeof buffer, file.get())) > 0) content.append(buffer, count);
  if (std::ferror(file.get()) != 0) return Failure("read", path);
  return content;
}

}  // namespace swivel
