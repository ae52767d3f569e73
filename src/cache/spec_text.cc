// A spec as one line of text, its presets, and the help.
#include <algorithm>
#include <charconv>
#include <vector>

#include "cache/spec.h"
#include "cache/spec_items.h"
#include "cache/spec_layers.h"
#include "cache/spec_names.h"

namespace swivel {
namespace {

// Keys of the presets are coded as halves of b + 1 and b - 1 bits; see docs/quality.md for what each gives.
constexpr SpecPreset kPresets[] = {
    {"quality", "k=tcq4,v=tcq4,transform=full,sinks=4,window=128"},
    {"balanced", "k=tcq3,v=tcq3,transform=full,sinks=4,window=128"},
    {"small", "k=tcq3,v=tcq2,transform=full,sinks=4,window=128"},
    {"tiny", "k=tcq2,v=tcq2,transform=full,sinks=4,window=128"},
};

// A second k= would silently win over the first; the order of items must not matter.
Status CheckRepeats(std::string_view key, std::string* seen) {
  if (key == "layer") return Status();  // SetLayers refuses what would depend on the order
  const std::string marked = "," + std::string(key) + ",";
  if (seen->find(marked) != std::string::npos) return Status::Invalid("'" + std::string(key) + "' is given twice");
  *seen += marked;
  return Status();
}

// The shortest text that gives the same number.
std::string Shortest(double number) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), number).ptr);
}

}  // namespace

const SpecPreset* FindPreset(std::string_view name) {
  const auto found = std::find_if(std::begin(kPresets), std::end(kPresets), [&](const SpecPreset& preset) { return name == preset.name; });
  return found == std::end(kPresets) ? nullptr : found;
}

std::string CacheSpec::ToString() const {
  std::string text = std::string("k=") + GetCodec(k).name + ",v=" + GetCodec(v).name;
  if (boundary_layers > 0) text += ",boundary=" + std::to_string(boundary_layers) + ":" + GetCodec(boundary_codec).name;
  text += LayerItems(layers);
  if (k_scale) text += std::string(",k_scale=") + ScaleModeName(*k_scale);
  if (v_scale) text += std::string(",v_scale=") + ScaleModeName(*v_scale);
  if (transform != Transform::kNone) text += std::string(",transform=") + kTransforms[static_cast<size_t>(transform)];
  if (mean && *mean == group_mean) text += std::string(",mean=") + (*mean ? "on" : "off");
  if (!group_mean) text += ",group_mean=off";
  if (!halves) text += ",halves=off";
  if (sinks > 0) text += ",sinks=" + std::to_string(sinks);
  if (window > 0) text += ",window=" + std::to_string(window);
  for (size_t i = 0; i < decay.size(); ++i) text += (i == 0 ? ",decay=" : "+") + std::to_string(decay[i].age) + ":" + std::to_string(decay[i].bits);
  if (budget_bytes > 0) text += ",budget=" + std::to_string(budget_bytes);
  if (defer_prefill) text += ",defer=prefill";
  if (calibration != "self") text += ",calibration=" + calibration;
  if (calibration == "self" && self_tokens > 0) text += ",calibration=self:" + std::to_string(self_tokens);
  if (!store.empty()) text += ",store=" + store;
  if (shrink) text += ",shrink=" + Shortest(*shrink);
  if (sparse_v > 0.0) text += ",sparse_v=" + Shortest(sparse_v);
  return text;
}

CacheSpec SpecBase::Start() const { return whole || k || v ? CacheSpec() : ParseSpec(kDefaultSpec).value(); }

Status SpecBase::Check() const {
  if (whole || k == v) return Status();
  return Status::Invalid(std::string(k ? "k= names the codec of the keys only; add v=" : "v= names the codec of the values only; add k=") +
                         ", or a preset or a codec for both, such as " + kDefaultSpec + (k ? ",k=tcq4" : ",v=tcq4"));
}

StatusOr<CacheSpec> ParseSpec(std::string_view text) {
  std::string seen;
  if (text.empty()) return Status::Invalid("the cache spec is empty; " + SpecHelp());
  std::vector<std::string_view> items;
  SpecBase base;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    items.push_back(text.substr(start, end - start));
    start = end + 1;
    base.Add(items.back().substr(0, items.back().find('=')), items.back().find('=') == std::string_view::npos);
  }
  CacheSpec spec = base.Start();
  // A bare name and scale= set both sides, so they come first whatever their place: "v=turbo3,turbo4" is K turbo4, V turbo3.
  for (const int pass : {0, 1, 2}) {
    for (const std::string_view item : items) {
      const bool bare = item.find('=') == std::string_view::npos;
      const std::string_view key = bare ? "a codec for both K and V, a preset or a file," : item.substr(0, item.find('='));
      if ((bare ? 0 : key == "scale" ? 1 : 2) != pass) continue;
      Status status = item.empty() ? Status::Invalid("an item is empty; " + SpecHelp()) : CheckRepeats(key, &seen);
      if (status.ok()) status = ApplySpecItem(item, &spec);
      if (!status.ok()) return Status(status.code(), "cache spec '" + std::string(text) + "': " + status.message());
    }
  }
  Status status = base.Check();
  if (status.ok()) status = CheckSpec(spec);
  if (!status.ok()) {
    return Status(status.code(), "cache spec '" + std::string(text) + "': " + status.message());
  }
  return spec;
}

std::span<const SpecPreset> SpecPresets() { return kPresets; }

std::string SpecHelp() {
  return "a spec is a preset (quality, balanced, small, tiny), a codec for K and V, or a file that ends in .toml, or items joined by commas: "
         "k=CODEC, v=CODEC, boundary=N:CODEC (first and last N layers), layer=A-B:CODEC or layer=A-B:k=CODEC or :v=CODEC (layers A to B from 0, "
         "any number of times), layer=A-B/H-J:… (their KV heads H to J), scale=MODE, k_scale=MODE, v_scale=MODE, transform=none|wht|eq|full, mean=on|off, "
         "group_mean=on|off, halves=on|off, sinks=N, window=N, decay=AGE:BITS, budget=BYTES, defer=off|prefill, calibration=self|self:TOKENS|FILE, store=FILE, shrink=X, "
         "sparse_v=X (at most 0.1: the share of the weights whose values attention may leave out). Codecs: " +
         CodecNames() + ". Scale modes: matched, unbiased, ls. Examples: balanced; balanced,window=256; k=turbo4,v=turbo3,boundary=2:q8_0; turbo3,layer=0:q8_0,layer=4-7:k=turbo4";
}

}  // namespace swivel
