#include "plugin/mapped_model.h"

#include <fstream>

namespace swivel::plugin {

StatusOr<std::string> MappedModel() {
  std::ifstream maps("/proc/self/maps");
  std::string line, found;
  while (std::getline(maps, line)) {
    const size_t path = line.find('/');
    if (path == std::string::npos || !line.ends_with(".gguf")) continue;
    const std::string here = line.substr(path);
    if (!found.empty() && here != found) return Status::NotFound("several models are mapped, " + found + " and " + here);
    found = here;
  }
  if (found.empty()) return Status::NotFound("no GGUF file is mapped (is mmap off?)");
  return found;
}

}  // namespace swivel::plugin
