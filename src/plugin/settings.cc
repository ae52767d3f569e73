#include "plugin/settings.h"

#include <cstdlib>
#include <mutex>
#include <string_view>

#include "plugin/log.h"

namespace swivel::plugin {
namespace {

std::mutex spec_mutex;
CacheSpec current_spec;
const Kernels* chosen_kernels = nullptr;

}  // namespace

Status ReadLogVariable() {
  const char* variable = std::getenv("SWIVEL_LOG");
  const std::string_view log = variable != nullptr ? variable : "";
  if (log.empty() || log == "0") return {};
  if (log != "1" && log != "stderr") return OpenEventLog(std::string(log));
  SetTrace(true);
  return {};
}

Status ReadEnvironment() {
  const char* spec = std::getenv("SWIVEL_KV");
  if (spec == nullptr || *spec == '\0') spec = kDefaultSpec;
  if (Status status = SetSpec(spec); !status.ok()) return {status.code(), std::string("SWIVEL_KV=") + spec + ": " + status.message()};
  auto target = ChooseTarget();
  if (!target.ok()) return target.status();
  chosen_kernels = &KernelsFor(target.value());
  return {};
}

CacheSpec CurrentSpec() {
  std::lock_guard lock(spec_mutex);
  return current_spec;
}

Status SetSpec(const std::string& text) {
  auto spec = ParseSpec(text);
  if (!spec.ok()) return spec.status();
  std::lock_guard lock(spec_mutex);
  current_spec = spec.value();
  return {};
}

const Kernels& kernels() { return *chosen_kernels; }

}  // namespace swivel::plugin
