#include "cache/spec_layers.h"

#include <algorithm>
#include <charconv>

#include "cache/spec_names.h"

namespace swivel {
namespace {

// 0 … kMostLayers-1.
constexpr int kMostLayers = 1000;

bool ReadLayer(std::string_view text, int* layer) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *layer);
  return error == std::errc() && end == text.data() + text.size() && *layer >= 0 && *layer < kMostLayers;
}

}  // namespace

Status SetLayers(std::string_view value, CacheSpec* spec) {
  const size_t colon = value.find(':');
  const std::string_view range = value.substr(0, colon);
  const size_t dash = range.find('-');
  LayerCodec entry;
  bool good = colon != std::string_view::npos && ReadLayer(range.substr(0, dash), &entry.first);
  entry.last = entry.first;
  if (good && dash != std::string_view::npos) good = ReadLayer(range.substr(dash + 1), &entry.last) && entry.last >= entry.first;
  if (!good) {
    return Status::Invalid("layer='" + std::string(value) +
                           "' is not A:CODEC, A-B:CODEC, A-B:k=CODEC or A-B:v=CODEC with layers 0 to 999, such as layer=0-1:q8_0");
  }
  std::string_view name = value.substr(colon + 1);
  const bool k_only = name.starts_with("k="), v_only = name.starts_with("v=");
  if (k_only || v_only) name.remove_prefix(2);
  if (Status status = SetCodec(name, &entry.codec); !status.ok()) return status;
  for (const Side side : {Side::kKey, Side::kValue}) {
    if (side == Side::kKey ? v_only : k_only) continue;
    entry.side = side;
    for (const LayerCodec& other : spec->layers) {
      if (other.side != side || entry.last < other.first || entry.first > other.last) continue;
      return Status::Invalid("layer='" + std::string(value) + "': " + (side == Side::kKey ? "the keys" : "the values") + " of layer " +
                             std::to_string(std::max(entry.first, other.first)) + " have a codec from another layer= already");
    }
    spec->layers.insert(std::upper_bound(spec->layers.begin(), spec->layers.end(), entry), entry);
  }
  return Status();
}

std::string LayerItems(const std::vector<LayerCodec>& layers) {
  std::string text;
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerCodec& entry = layers[i];
    LayerCodec other = entry;
    other.side = Side::kValue;
    const bool both = entry.side == Side::kKey && std::binary_search(layers.begin(), layers.end(), other);
    other.side = Side::kKey;
    if (entry.side == Side::kValue && std::binary_search(layers.begin(), layers.end(), other)) continue;
    text += ",layer=" + std::to_string(entry.first);
    if (entry.last > entry.first) text += "-" + std::to_string(entry.last);
    text += std::string(both ? ":" : entry.side == Side::kKey ? ":k=" : ":v=") + GetCodec(entry.codec).name;
  }
  return text;
}

}  // namespace swivel
