#include "plugin/key_bias.h"

#include <string>
#include <vector>

#include "gguf/shape.h"
#include "plugin/log.h"
#include "plugin/mapped_model.h"

namespace swivel::plugin {
namespace {

// The first tensor that adds a bias to the keys of the mapped model, empty: none, or not known.
std::string KeyBias() {
  static auto* known = new OfMappedModel<std::string>([](const std::string& path) -> StatusOr<std::string> {
    StatusOr<gguf::Header> header = gguf::ReadModelHeader(path);
    const std::vector<std::string> tensors = header.ok() ? gguf::KeyBiasTensors(*header) : std::vector<std::string>();
    return tensors.empty() ? std::string() : tensors[0];
  });
  StatusOr<std::string> tensor = known->Get();
  return tensor.ok() ? *tensor : "";
}

}  // namespace

void WarnOfKeyBias(const CacheSpec& spec, const Codec& codec) {
  if (!spec.LosesKeyBias(codec)) return;
  const std::string tensor = KeyBias();
  if (tensor.empty()) return;
  SayOnce("WARNING: the keys of this model have a bias (" + tensor + ") and so large means, of which k=" + codec.name +
          (spec.PacksGroups(codec) ? spec.transform == Transform::kHadamard ? " with transform=wht" : " without means" : "") +
          " loses much: text may become nonsense. Use a preset (SWIVEL_KV=balanced), which subtracts the means, or k=q8_0");
}

}  // namespace swivel::plugin
