#include "cache/spec.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "cache/group_store.h"
#include "cache/segment_store.h"
#include "cache/spec_file.h"
#include "cache/spec_items.h"

namespace swivel {
namespace {

// Keys of the presets are coded as halves of b + 1 and b - 1 bits; see docs/quality.md for what each gives.
constexpr SpecPreset kPresets[] = {
    {"quality", "k=tcq4,v=tcq4,transform=full,sinks=4,window=128"},
    {"balanced", "k=tcq3,v=tcq3,transform=full,sinks=4,window=128"},
    {"small", "k=tcq3,v=tcq2,transform=full,sinks=4,window=128"},
    {"tiny", "k=tcq2,v=tcq2,transform=full,sinks=4,window=128"},
};

constexpr std::array<const char*, 4> kTransforms = {"none", "wht", "eq", "full"};

constexpr ScaleMode kScaleModes[] = {ScaleMode::kMatched, ScaleMode::kUnbiased, ScaleMode::kLeastSquares};

StatusOr<ScaleMode> FindScaleMode(std::string_view name) {
  for (ScaleMode mode : kScaleModes) {
    if (name == ScaleModeName(mode)) return mode;
  }
  return Status::Invalid("unknown scale mode '" + std::string(name) + "'; accepted: matched, unbiased, ls");
}

Status SetCodec(std::string_view name, CodecId* id) {
  StatusOr<const Codec*> codec = FindCodec(name);
  if (!codec.ok()) return codec.status();
  *id = (*codec)->id;
  return Status();
}

Status SetScale(std::string_view name, std::optional<ScaleMode>* mode) {
  StatusOr<ScaleMode> found = FindScaleMode(name);
  if (!found.ok()) return found.status();
  *mode = *found;
  return Status();
}

Status SetBoundary(std::string_view value, CacheSpec* spec) {
  const size_t colon = value.find(':');
  const std::string_view count = value.substr(0, colon);
  int layers = -1;
  const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), layers);
  if (colon == std::string_view::npos || error != std::errc() || end != count.data() + count.size() || layers < 1 || layers > 1000) {
    return Status::Invalid("boundary='" + std::string(value) + "' is not n:codec with n from 1 to 1000, such as boundary=2:q8_0");
  }
  spec->boundary_layers = layers;
  return SetCodec(value.substr(colon + 1), &spec->boundary_codec);
}

Status SetNumber(std::string_view key, std::string_view value, int most, int* number) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *number);
  if (error == std::errc() && end == value.data() + value.size() && *number >= 0 && *number <= most) return Status();
  return Status::Invalid(std::string(key) + "='" + std::string(value) + "' is not a number from 0 to " + std::to_string(most));
}

Status SetFlag(std::string_view key, std::string_view value, bool* flag) {
  *flag = value == "on";
  if (value == "on" || value == "off") return Status();
  return Status::Invalid(std::string(key) + "='" + std::string(value) + "' is neither on nor off");
}

Status SetTransform(std::string_view value, CacheSpec* spec) {
  const auto found = std::find(kTransforms.begin(), kTransforms.end(), value);
  if (found == kTransforms.end()) return Status::Invalid("unknown transform '" + std::string(value) + "'; accepted: none, wht, eq, full");
  spec->transform = static_cast<Transform>(found - kTransforms.begin());
  return Status();
}

Status SetShrink(std::string_view value, CacheSpec* spec) {
  double shrink = -1.0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), shrink);
  if (error != std::errc() || end != value.data() + value.size() || !(shrink >= 0.0 && shrink <= 1.0)) {
    return Status::Invalid("shrink='" + std::string(value) + "' is not within 0 and 1");
  }
  spec->shrink = shrink;
  return Status();
}

Status SetSparseV(std::string_view value, CacheSpec* spec) {
  double limit = 0.0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), limit);
  // A float in the kernels: what it cannot hold would be 0, which is off.
  if (error != std::errc() || end != value.data() + value.size() || !(static_cast<float>(limit) > 0.0f && limit <= 0.1)) {
    return Status::Invalid("sparse_v='" + std::string(value) + "' is not above 0 and at most 0.1, such as sparse_v=0.001");
  }
  spec->sparse_v = limit;
  return Status();
}

// "4096:3+16384:2"
Status SetDecay(std::string_view value, CacheSpec* spec) {
  spec->decay.clear();
  for (size_t start = 0; start <= value.size();) {
    const size_t end = std::min(value.find('+', start), value.size());
    const std::string_view step = value.substr(start, end - start);
    start = end + 1;
    DecayStep parsed;
    const char* last = step.data() + step.size();
    const auto age = std::from_chars(step.data(), last, parsed.age);
    const bool colon = age.ec == std::errc() && age.ptr != last && *age.ptr == ':';
    const auto bits = colon ? std::from_chars(age.ptr + 1, last, parsed.bits) : age;
    const bool rising = spec->decay.empty() || (parsed.age > spec->decay.back().age && parsed.bits < spec->decay.back().bits);
    if (!colon || bits.ec != std::errc() || bits.ptr != last || parsed.age < kGroupTokens || parsed.bits < 2 || parsed.bits > 3 || !rising) {
      return Status::Invalid("decay='" + std::string(value) + "' is not AGE:BITS or AGE:3+AGE:2 with rising ages of at least " +
                             std::to_string(kGroupTokens) + " tokens, such as decay=4096:2");
    }
    spec->decay.push_back(parsed);
  }
  return Status();
}

Status SetBudget(std::string_view value, CacheSpec* spec) {
  uint64_t bytes = 0;
  const char* last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, bytes);
  const std::string_view unit(end, static_cast<size_t>(last - end));
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  if (error != std::errc() || shift < 0 || bytes == 0 || bytes > (uint64_t{1} << 50 >> shift)) {
    return Status::Invalid("budget='" + std::string(value) + "' is not a number of bytes, such as budget=64M (K, M, G are powers of 1024)");
  }
  spec->budget_bytes = bytes << shift;
  return Status();
}

Status SetCalibration(std::string_view value, CacheSpec* spec) {
  if (value.empty()) return Status::Invalid("calibration= wants 'self' or the path of a file that swivel calibrate has written");
  if (value.find(',') != std::string_view::npos) return Status::Invalid("calibration='" + std::string(value) + "': the path may hold no comma");
  spec->calibration = value;
  return Status();
}

// The shortest text that gives the same number.
std::string Shortest(double number) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), number).ptr);
}

// 0 … kMostLayers-1.
constexpr int kMostLayers = 1000;

bool ReadLayer(std::string_view text, int* layer) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *layer);
  return error == std::errc() && end == text.data() + text.size() && *layer >= 0 && *layer < kMostLayers;
}

// "0-3:q8_0", "5:k=tcq4".
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

// Both sides in one item where they agree.
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

const SpecPreset* FindPreset(std::string_view name) {
  const auto found = std::find_if(std::begin(kPresets), std::end(kPresets), [&](const SpecPreset& preset) { return name == preset.name; });
  return found == std::end(kPresets) ? nullptr : found;
}

// Every key of the grammar. A file has the same ones (spec_file.cc).
struct Key {
  const char* name;
  Status (*set)(std::string_view value, CacheSpec* spec);
};
constexpr Key kKeys[] = {
    {"k", [](std::string_view value, CacheSpec* spec) { return SetCodec(value, &spec->k); }},
    {"v", [](std::string_view value, CacheSpec* spec) { return SetCodec(value, &spec->v); }},
    {"boundary", SetBoundary},
    {"layer", SetLayers},
    {"scale",
     [](std::string_view value, CacheSpec* spec) {
       const Status status = SetScale(value, &spec->k_scale);
       spec->v_scale = spec->k_scale;
       return status;
     }},
    {"k_scale", [](std::string_view value, CacheSpec* spec) { return SetScale(value, &spec->k_scale); }},
    {"v_scale", [](std::string_view value, CacheSpec* spec) { return SetScale(value, &spec->v_scale); }},
    {"transform", SetTransform},
    {"mean", [](std::string_view value, CacheSpec* spec) { return SetFlag("mean", value, &spec->mean); }},
    {"group_mean", [](std::string_view value, CacheSpec* spec) { return SetFlag("group_mean", value, &spec->group_mean); }},
    {"halves", [](std::string_view value, CacheSpec* spec) { return SetFlag("halves", value, &spec->halves); }},
    {"sinks", [](std::string_view value, CacheSpec* spec) { return SetNumber("sinks", value, kGroupTokens, &spec->sinks); }},
    {"window", [](std::string_view value, CacheSpec* spec) { return SetNumber("window", value, 1 << 20, &spec->window); }},
    {"decay", SetDecay},
    {"budget", SetBudget},
    {"calibration", SetCalibration},
    {"shrink", SetShrink},
    {"sparse_v", SetSparseV},
};

// What the transforms can pack.
Status CheckTransform(const CacheSpec& spec) {
  if (spec.transform == Transform::kNone) {
    if (spec.decay.empty() && spec.budget_bytes == 0) return Status();
    return Status::Invalid("decay= and budget= pack groups again and need a transform: transform=wht, eq or full, or a preset");
  }
  const auto packs = [](CodecId k) { return k == CodecId::kTcq2 || k == CodecId::kTcq3 || k == CodecId::kTcq4; };
  // Layers may be exceptions that take no part in the transform, but not codes that it cannot be applied to.
  const auto wrong = [&](CodecId k) { return !packs(k) && GetCodec(k).layout == Layout::kTrellis; };
  const CodecId* bad = packs(spec.k) ? nullptr : &spec.k;
  if (bad == nullptr && spec.boundary_layers > 0 && wrong(spec.boundary_codec)) bad = &spec.boundary_codec;
  for (const LayerCodec& entry : spec.layers) {
    if (bad == nullptr && entry.side == Side::kKey && wrong(entry.codec)) bad = &entry.codec;
  }
  if (bad == nullptr) return Status();
  return Status::Invalid(std::string("transform=") + kTransforms[static_cast<size_t>(spec.transform)] + " packs keys as k=tcq2, k=tcq3 or k=tcq4, not " +
                         GetCodec(*bad).name);
}

// A second k= would silently win over the first; the order of items must not matter.
Status CheckRepeats(std::string_view key, std::string* seen) {
  if (key == "layer") return Status();  // SetLayers refuses what would depend on the order
  const std::string marked = "," + std::string(key) + ",";
  if (seen->find(marked) != std::string::npos) return Status::Invalid("'" + std::string(key) + "' is given twice");
  *seen += marked;
  return Status();
}

}  // namespace

Status ApplySpecItem(std::string_view item, CacheSpec* spec) {
  const size_t equals = item.find('=');
  if (equals == std::string_view::npos) {
    if (const SpecPreset* preset = FindPreset(item); preset != nullptr) {
      *spec = ParseSpec(preset->spec).value();
      return Status();
    }
    if (IsSpecFile(item)) {
      StatusOr<CacheSpec> file = ReadSpecFile(std::string(item));
      if (!file.ok()) return file.status();
      *spec = std::move(*file);
      return Status();
    }
    StatusOr<const Codec*> codec = FindCodec(item);
    if (!codec.ok()) {
      return Status::Invalid("unknown codec or preset '" + std::string(item) + "'; accepted: quality, balanced, small, tiny, a file that ends in .toml, " +
                             CodecNames());
    }
    spec->k = spec->v = (*codec)->id;
    return Status();
  }
  const std::string_view name = item.substr(0, equals);
  for (const Key& key : kKeys) {
    if (name == key.name) return key.set(item.substr(equals + 1), spec);
  }
  return Status::Invalid("unknown key '" + std::string(name) + "'; accepted: " + SpecKeys());
}

Status CheckSpec(const CacheSpec& spec) { return CheckTransform(spec); }

std::string SpecKeys() {
  std::string names;
  for (const Key& key : kKeys) names += (names.empty() ? "" : ", ") + std::string(key.name);
  return names;
}

bool IsSpecKey(std::string_view name) {
  return std::any_of(std::begin(kKeys), std::end(kKeys), [&](const Key& key) { return name == key.name; });
}

CodecId CacheSpec::CodecFor(Side side, int ordinal, int num_layers) const {
  for (const LayerCodec& entry : layers) {
    if (entry.side == side && entry.first <= ordinal && ordinal <= entry.last) return entry.codec;
  }
  if (ordinal < boundary_layers || ordinal >= num_layers - boundary_layers) return boundary_codec;
  return side == Side::kKey ? k : v;
}

bool CacheSpec::EncodesGroups() const {
  const auto does = [](CodecId id) { return GetCodec(id).encodes_groups(); };
  return does(k) || does(v) || (boundary_layers > 0 && does(boundary_codec)) ||
         std::any_of(layers.begin(), layers.end(), [&](const LayerCodec& entry) { return does(entry.codec); });
}

SegmentLayout CacheSpec::Segments(Side side, const Codec& codec, int width) const {
  if (side == Side::kValue) return ValueSegments(width, codec.code_bits);
  return KeySegments(width, codec.code_bits, transform == Transform::kFull && halves && codec.code_bits > 1, group_mean);
}

std::vector<const Codec*> CacheSpec::DecayCodecs(const Codec& codec) const {
  std::vector<const Codec*> codecs;
  if (!PacksGroups(codec) || (decay.empty() && budget_bytes == 0)) return codecs;
  const int lowest = budget_bytes != 0 ? 2 : decay.back().bits;
  constexpr CodecId kByBits[] = {CodecId::kTcq2, CodecId::kTcq3};
  for (int bits = std::min(codec.code_bits - 1, 3); bits >= lowest; --bits) codecs.push_back(&GetCodec(kByBits[bits - 2]));
  return codecs;
}

std::vector<int64_t> CacheSpec::DecayAges(const Codec& codec) const {
  std::vector<int64_t> ages;
  for (const Codec* next : DecayCodecs(codec)) {
    int64_t age = -1;
    for (const DecayStep& step : decay) {
      if (step.bits <= next->code_bits && age < 0) age = step.age;
    }
    ages.push_back(age);
  }
  return ages;
}

StatusOr<std::unique_ptr<PackedStore>> CacheSpec::MakeStore(Side side, const Codec& codec, const StoreShape& shape) const {
  if (PacksGroups(codec)) {
    auto store = SegmentStore::Create(codec, Segments(side, codec, shape.width), ScaleFor(side, codec), shape);
    if (!store.ok()) return store.status();
    return std::unique_ptr<PackedStore>(std::move(*store));
  }
  auto store = GroupStore::Create(codec, side, ScaleFor(side, codec), shape);
  if (!store.ok()) return store.status();
  return std::unique_ptr<PackedStore>(std::move(*store));
}

std::string CacheSpec::ToString() const {
  std::string text = std::string("k=") + GetCodec(k).name + ",v=" + GetCodec(v).name;
  if (boundary_layers > 0) text += ",boundary=" + std::to_string(boundary_layers) + ":" + GetCodec(boundary_codec).name;
  text += LayerItems(layers);
  if (k_scale) text += std::string(",k_scale=") + ScaleModeName(*k_scale);
  if (v_scale) text += std::string(",v_scale=") + ScaleModeName(*v_scale);
  if (transform != Transform::kNone) text += std::string(",transform=") + kTransforms[static_cast<size_t>(transform)];
  if (!mean) text += ",mean=off";
  if (!group_mean) text += ",group_mean=off";
  if (!halves) text += ",halves=off";
  if (sinks > 0) text += ",sinks=" + std::to_string(sinks);
  if (window > 0) text += ",window=" + std::to_string(window);
  for (size_t i = 0; i < decay.size(); ++i) text += (i == 0 ? ",decay=" : "+") + std::to_string(decay[i].age) + ":" + std::to_string(decay[i].bits);
  if (budget_bytes > 0) text += ",budget=" + std::to_string(budget_bytes);
  if (calibration != "self") text += ",calibration=" + calibration;
  if (shrink) text += ",shrink=" + Shortest(*shrink);
  if (sparse_v > 0.0) text += ",sparse_v=" + Shortest(sparse_v);
  return text;
}

size_t CacheSpec::GroupBytes(Side side, const Codec& codec, int width) const {
  if (!PacksGroups(codec)) return codec.group_bytes(width);
  const SegmentLayout layout = Segments(side, codec, width);
  return layout.CodesBytes() + layout.SideBytes();
}

double CacheSpec::BitsOf(Side side, const Codec& codec, int width) const {
  return 8.0 * static_cast<double>(GroupBytes(side, codec, width)) / (static_cast<double>(kGroupTokens) * width);
}

double CacheSpec::BitsPerValue(int k_width, int v_width, int num_layers) const {
  double bits = 0.0;
  for (int layer = 0; layer < num_layers; ++layer) {
    bits += BitsOf(Side::kKey, GetCodec(CodecFor(Side::kKey, layer, num_layers)), k_width) * k_width;
    bits += BitsOf(Side::kValue, GetCodec(CodecFor(Side::kValue, layer, num_layers)), v_width) * v_width;
  }
  return bits / (static_cast<double>(num_layers) * (k_width + v_width));
}

StatusOr<CacheSpec> ParseSpec(std::string_view text) {
  CacheSpec spec;
  std::string seen;
  if (text.empty()) return Status::Invalid("the cache spec is empty; " + SpecHelp());
  // A bare name and scale= set both sides, so they come first whatever their place: "v=turbo3,turbo4" is K turbo4, V turbo3.
  for (const int pass : {0, 1, 2}) {
    for (size_t start = 0; start <= text.size();) {
      const size_t end = std::min(text.find(',', start), text.size());
      const std::string_view item = text.substr(start, end - start);
      start = end + 1;
      const bool bare = item.find('=') == std::string_view::npos;
      const std::string_view key = bare ? "a codec for both K and V, a preset or a file," : item.substr(0, item.find('='));
      if ((bare ? 0 : key == "scale" ? 1 : 2) != pass) continue;
      Status status = item.empty() ? Status::Invalid("an item is empty; " + SpecHelp()) : CheckRepeats(key, &seen);
      if (status.ok()) status = ApplySpecItem(item, &spec);
      if (!status.ok()) return Status(status.code(), "cache spec '" + std::string(text) + "': " + status.message());
    }
  }
  if (Status status = CheckSpec(spec); !status.ok()) {
    return Status(status.code(), "cache spec '" + std::string(text) + "': " + status.message());
  }
  return spec;
}

std::span<const SpecPreset> SpecPresets() { return kPresets; }

std::string SpecHelp() {
  return "a spec is a preset (quality, balanced, small, tiny), a codec for K and V, or a file that ends in .toml, or items joined by commas: "
         "k=CODEC, v=CODEC, boundary=N:CODEC (first and last N layers), layer=A-B:CODEC or layer=A-B:k=CODEC or :v=CODEC (layers A to B from 0, "
         "any number of times), scale=MODE, k_scale=MODE, v_scale=MODE, transform=none|wht|eq|full, mean=on|off, "
         "group_mean=on|off, halves=on|off, sinks=N, window=N, decay=AGE:BITS, budget=BYTES, calibration=self|FILE, shrink=X, sparse_v=X (at most 0.1: the share of the weights whose values attention may leave out). Codecs: " +
         CodecNames() + ". Scale modes: matched, unbiased, ls. Examples: balanced; balanced,window=256; k=turbo4,v=turbo3,boundary=2:q8_0; turbo3,layer=0:q8_0,layer=4-7:k=turbo4";
}

}  // namespace swivel
