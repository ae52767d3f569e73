// Models in several files: llama.cpp names them <name>-00001-of-00003.gguf and puts the keys into the first.
#include <cstdio>
#include <utility>

#include "gguf/header.h"

namespace swivel::gguf {
namespace {

// A model in more parts than this is damage (the largest published ones have a few hundred).
constexpr int64_t kMaxParts = 10000;

std::string PartSuffix(int64_t part, int64_t parts) {
  char suffix[64];
  std::snprintf(suffix, sizeof(suffix), "-%05lld-of-%05lld.gguf", static_cast<long long>(part), static_cast<long long>(parts));
  return suffix;
}

}  // namespace

std::string PartPath(const std::string& path, int part, int64_t parts) {
  const std::string suffix = PartSuffix(1, parts);
  if (part == 0 || !path.ends_with(suffix)) return path;
  return path.substr(0, path.size() - suffix.size()) + PartSuffix(part + 1, parts);
}

StatusOr<Header> ReadModelHeader(const std::string& path) {
  StatusOr<Header> first = ReadHeader(path);
  if (!first.ok()) return first;
  const int64_t parts = first->Integer("split.count").value_or(1);
  const int64_t part = first->Integer("split.no").value_or(0);
  if (parts <= 1) return first;
  if (parts > kMaxParts) return Status::Invalid(path + ": damaged GGUF header: split.count is " + std::to_string(parts));
  if (part != 0) {
    return Status::Invalid(path + ": this is part " + std::to_string(part + 1) + " of a model in " + std::to_string(parts) +
                           " files; name the first (…" + PartSuffix(1, parts) + ")");
  }
  const std::string suffix = PartSuffix(1, parts);
  if (!path.ends_with(suffix)) {
    first->complete = false;
    first->end_note = "the other " + std::to_string(parts - 1) + " parts of the model cannot be found by name (expected …" + suffix + ")";
    return first;
  }
  for (int64_t i = 2; i <= parts; ++i) {
    StatusOr<Header> next = ReadHeader(PartPath(path, static_cast<int>(i - 1), parts));
    if (!next.ok() || !next->complete) {
      first->complete = false;
      first->end_note = next.ok() ? next->end_note : next.status().message();
      return first;
    }
    for (Tensor& tensor : next->tensors) {
      tensor.part = static_cast<int>(i - 1);
      first->tensors.push_back(std::move(tensor));
    }
    first->data_offsets.push_back(next->data_offsets[0]);
    first->declared_tensors += next->declared_tensors;
    first->file_bytes += next->file_bytes;
  }
  return first;
}

}  // namespace swivel::gguf
