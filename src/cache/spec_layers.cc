#include "cache/spec_layers.h"

#include <algorithm>
#include <charconv>

#include "cache/spec_names.h"

namespace swivel {
namespace {

// Numbers of layers and heads are below this.
constexpr int kMostNumbers = 1000;

bool ReadNumber(std::string_view text, int* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && *number >= 0 && *number < kMostNumbers;
}

// "3", "0-3".
bool ReadRange(std::string_view text, int* first, int* last) {
  const size_t dash = text.find('-');
  if (!ReadNumber(text.substr(0, dash), first)) return false;
  *last = *first;
  return dash == std::string_view::npos || (ReadNumber(text.substr(dash + 1), last) && *last >= *first);
}

std::string Range(int first, int last) { return std::to_string(first) + (last > first ? "-" + std::to_string(last) : ""); }

bool Overlap(const LayerCodec& a, const LayerCodec& b) {
  if (a.side != b.side || a.OfHeads() != b.OfHeads() || a.last < b.first || a.first > b.last) return false;
  return !a.OfHeads() || (a.last_head >= b.first_head && a.first_head <= b.last_head);
}

}  // namespace

Status SetLayers(std::string_view value, CacheSpec* spec) {
  const size_t colon = value.find(':');
  const std::string_view range = value.substr(0, colon);
  const size_t slash = range.find('/');
  LayerCodec entry;
  bool good = colon != std::string_view::npos && ReadRange(range.substr(0, slash), &entry.first, &entry.last);
  if (good && slash != std::string_view::npos) good = ReadRange(range.substr(slash + 1), &entry.first_head, &entry.last_head);
  if (!good) {
    return Status::Invalid("layer='" + std::string(value) +
                           "' is not A:CODEC, A-B:CODEC, A-B:k=CODEC or A-B:v=CODEC with layers 0 to 999, such as layer=0-1:q8_0; KV heads of "
                           "these layers follow a slash, 0 to 999: layer=A-B/H-J:CODEC");
  }
  std::string_view name = value.substr(colon + 1);
  const bool k_only = name.starts_with("k="), v_only = name.starts_with("v=");
  if (k_only || v_only) name.remove_prefix(2);
  if (Status status = SetCodec(name, &entry.codec); !status.ok()) return status;
  for (const Side side : {Side::kKey, Side::kValue}) {
    if (side == Side::kKey ? v_only : k_only) continue;
    entry.side = side;
    for (const LayerCodec& other : spec->layers) {
      if (!Overlap(entry, other)) continue;
      std::string place = side == Side::kKey ? "the keys" : "the values";
      if (entry.OfHeads()) place += " of head " + std::to_string(std::max(entry.first_head, other.first_head));
      return Status::Invalid("layer='" + std::string(value) + "': " + place + " of layer " + std::to_string(std::max(entry.first, other.first)) +
                             " have a codec from another layer= already");
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
    text += ",layer=" + Range(entry.first, entry.last);
    if (entry.OfHeads()) text += "/" + Range(entry.first_head, entry.last_head);
    text += std::string(both ? ":" : entry.side == Side::kKey ? ":k=" : ":v=") + GetCodec(entry.codec).name;
  }
  return text;
}

}  // namespace swivel
