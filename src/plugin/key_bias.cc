#include "plugin/key_bias.h"

#include <map>
#include <mutex>
#include <string>

#include "gguf/shape.h"
#include "plugin/log.h"
#include "plugin/mapped_model.h"

namespace swivel::plugin {
namespace {

// The first tensor that adds a bias to the keys of the mapped model, empty: none, or not known. Each layer of a context asks.
std::string KeyBias() {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, std::string>;
  StatusOr<std::string> model = MappedModel();
  if (!model.ok()) return "";
  std::lock_guard lock(mutex);
  if (const auto found = known->find(*model); found != known->end()) return found->second;
  StatusOr<gguf::Header> header = gguf::ReadModelHeader(*model);
  const std::vector<std::string> tensors = header.ok() ? gguf::KeyBiasTensors(*header) : std::vector<std::string>();
  return (*known)[*model] = tensors.empty() ? "" : tensors[0];
}

}  // namespace

void WarnOfKeyBias(const CacheSpec& spec, const Codec& codec) {
  if (!spec.LosesKeyBias(codec)) return;
  const std::string tensor = KeyBias();
  if (tensor.empty()) return;
  SayOnce("WARNING: the keys of this model have a bias (" + tensor + ") and so large means, of which k=" + codec.name +
          (spec.PacksGroups(codec) ? spec.transform == Transform::kHadamard ? " with transform=wht" : " with mean=off" : "") +
          " loses much: text may become nonsense. Use a preset (SWIVEL_KV=balanced), which subtracts the means, or k=q8_0");
}

}  // namespace swivel::plugin
