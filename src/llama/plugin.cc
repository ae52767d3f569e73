#include "llama/plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>

#include "ggml-backend.h"
#include "llama/log.h"

namespace swivel {
namespace {

template <class T>
std::optional<T> NumberAt(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<T>();
}

// Every integer that is not one of these (or bytes) counts events. Those of a policy may be an object of their own: then one level deeper.
void ReadCounters(const nlohmann::json& object, bool nested, std::map<std::string, int64_t>* counters) {
  static constexpr const char* kSizes[] = {"context", "tensors", "packed_tensors", "cells", "streams", "head_width"};
  for (const auto& [key, value] : object.items()) {
    if (value.is_object() && !nested) ReadCounters(value, true, counters);
    const bool is_size = key.ends_with("_bytes") || std::find(std::begin(kSizes), std::end(kSizes), key) != std::end(kSizes);
    if (value.is_number_integer() && !is_size) (*counters)[key] += value.get<int64_t>();
  }
}

}  // namespace

StatusOr<std::string> FindPlugin() {
  namespace fs = std::filesystem;
  std::error_code error;
  if (const char* named = std::getenv("SWIVEL_PLUGIN"); named != nullptr && *named != '\0') {
    if (fs::is_regular_file(named, error)) return std::string(named);
    return Status::NotFound(fmt::format("SWIVEL_PLUGIN is '{}', which is not a file", named));
  }
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path() / "lib";
  for (const fs::path& path : {folder / "libggml-swivel.so", folder / "swivel" / "libggml-swivel.so"}) {
    if (fs::is_regular_file(path, error)) return path.string();
  }
  return Status::NotFound(fmt::format(
      "libggml-swivel.so is neither in {0} nor in {0}/swivel; build it, or name it with SWIVEL_PLUGIN=/path/to/libggml-swivel.so",
      folder.string()));
}

StatusOr<Plugin*> Plugin::Get() {
  static StatusOr<Plugin*> plugin = Load();  // stays loaded: ggml keeps pointers into it
  return plugin;
}

StatusOr<Plugin*> Plugin::Load() {
  StatusOr<std::string> path = FindPlugin();
  if (!path.ok()) return path.status();
  const LlamaLogMark mark;
  ggml_backend_reg_t reg = ggml_backend_load(path->c_str());
  if (reg == nullptr) {
    return Status::Unsupported(fmt::format("llama.cpp did not take the plugin {}: {}", *path, mark.Errors()));
  }
  auto plugin = std::unique_ptr<Plugin>(new Plugin);
  plugin->path_ = *path;
  if (ggml_backend_reg_dev_count(reg) > 0) plugin->device_ = ggml_backend_reg_dev_get(reg, 0);
  plugin->set_kv_ = reinterpret_cast<const char* (*)(const char*)>(ggml_backend_reg_get_proc_address(reg, "swivel_set_kv"));
  plugin->report_ = reinterpret_cast<size_t (*)(char*, size_t)>(ggml_backend_reg_get_proc_address(reg, "swivel_report"));
  if (plugin->device_ == nullptr || plugin->set_kv_ == nullptr) {
    return Status::Unsupported(fmt::format("{} is not a Swivel plugin of this version", *path));
  }
  return plugin.release();
}

Status Plugin::SetSpec(const std::string& spec) {
  const char* error = set_kv_(spec.c_str());
  return error == nullptr ? Status() : Status::Invalid(error);
}

std::vector<CacheReport> Plugin::Report() const {
  if (report_ == nullptr) return {};
  std::string text(report_(nullptr, 0) + 1, '\0');
  text.resize(std::min(report_(text.data(), text.size()), text.size()));
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return ParseReport(text);
}

std::vector<CacheReport> ParseReport(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<CacheReport> reports;
  const nlohmann::json* list = json.is_object() && json.contains("caches") ? &json["caches"] : &json;
  if (!list->is_array()) return reports;
  for (const nlohmann::json& cache : *list) {
    if (!cache.is_object()) continue;
    CacheReport report;
    if (cache.contains("kv") && cache["kv"].is_string()) report.kv = cache["kv"].get<std::string>();
    report.context = NumberAt<int64_t>(cache, "context").value_or(0);
    report.tensors = NumberAt<int64_t>(cache, "tensors").value_or(0);
    report.packed_tensors = NumberAt<int64_t>(cache, "packed_tensors").value_or(report.tensors);
    report.packed_bytes = NumberAt<int64_t>(cache, "packed_bytes");
    report.resident_bytes = NumberAt<int64_t>(cache, "resident_bytes");
    report.f16_bytes = NumberAt<int64_t>(cache, "f16_bytes");
    ReadCounters(cache, /*nested=*/false, &report.counters);
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace swivel
