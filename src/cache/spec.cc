#include "cache/spec.h"

#include <algorithm>
#include <charconv>

namespace swivel {
namespace {

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

Status ApplyItem(std::string_view item, CacheSpec* spec) {
  const size_t equals = item.find('=');
  if (equals == std::string_view::npos) {
    const Status status = SetCodec(item, &spec->k);
    spec->v = spec->k;
    return status;
  }
  const std::string_view key = item.substr(0, equals);
  const std::string_view value = item.substr(equals + 1);
  if (key == "k") return SetCodec(value, &spec->k);
  if (key == "v") return SetCodec(value, &spec->v);
  if (key == "boundary") return SetBoundary(value, spec);
  if (key == "k_scale") return SetScale(value, &spec->k_scale);
  if (key == "v_scale") return SetScale(value, &spec->v_scale);
  if (key == "scale") {
    const Status status = SetScale(value, &spec->k_scale);
    spec->v_scale = spec->k_scale;
    return status;
  }
  return Status::Invalid("unknown key '" + std::string(key) + "'; accepted: k, v, boundary, scale, k_scale, v_scale");
}

// A second k= would silently win over the first; the order of items must not matter.
Status CheckRepeats(std::string_view key, std::string* seen) {
  const std::string marked = "," + std::string(key) + ",";
  if (seen->find(marked) != std::string::npos) return Status::Invalid("'" + std::string(key) + "' is given twice");
  *seen += marked;
  return Status();
}

}  // namespace

CodecId CacheSpec::CodecFor(Side side, int ordinal, int num_layers) const {
  if (ordinal < boundary_layers || ordinal >= num_layers - boundary_layers) return boundary_codec;
  return side == Side::kKey ? k : v;
}

std::string CacheSpec::ToString() const {
  std::string text = std::string("k=") + GetCodec(k).name + ",v=" + GetCodec(v).name;
  if (boundary_layers > 0) text += ",boundary=" + std::to_string(boundary_layers) + ":" + GetCodec(boundary_codec).name;
  if (k_scale) text += std::string(",k_scale=") + ScaleModeName(*k_scale);
  if (v_scale) text += std::string(",v_scale=") + ScaleModeName(*v_scale);
  return text;
}

double CacheSpec::BitsPerValue(int k_width, int v_width, int num_layers) const {
  double bits = 0.0;
  for (int layer = 0; layer < num_layers; ++layer) {
    bits += swivel::BitsPerValue(GetCodec(CodecFor(Side::kKey, layer, num_layers)), k_width) * k_width;
    bits += swivel::BitsPerValue(GetCodec(CodecFor(Side::kValue, layer, num_layers)), v_width) * v_width;
  }
  return bits / (static_cast<double>(num_layers) * (k_width + v_width));
}

StatusOr<CacheSpec> ParseSpec(std::string_view text) {
  CacheSpec spec;
  std::string seen;
  if (text.empty()) return Status::Invalid("the cache spec is empty; " + SpecHelp());
  // A bare codec and scale= set both sides, so they come first whatever their place: "v=turbo3,turbo4" is K turbo4, V turbo3.
  for (const bool general_pass : {true, false}) {
    for (size_t start = 0; start <= text.size();) {
      const size_t end = std::min(text.find(',', start), text.size());
      const std::string_view item = text.substr(start, end - start);
      start = end + 1;
      const bool bare = item.find('=') == std::string_view::npos;
      const std::string_view key = bare ? "a codec for both K and V" : item.substr(0, item.find('='));
      if ((bare || key == "scale") != general_pass) continue;
      Status status = item.empty() ? Status::Invalid("an item is empty; " + SpecHelp()) : CheckRepeats(key, &seen);
      if (status.ok()) status = ApplyItem(item, &spec);
      if (!status.ok()) return Status(status.code(), "cache spec '" + std::string(text) + "': " + status.message());
    }
  }
  return spec;
}

std::string SpecHelp() {
  return "a spec is a codec for K and V, or items joined by commas: k=CODEC, v=CODEC, boundary=N:CODEC (first and last N layers), "
         "scale=MODE, k_scale=MODE, v_scale=MODE. Codecs: " +
         CodecNames() + ". Scale modes: matched, unbiased, ls. Example: k=turbo4,v=turbo3,boundary=2:q8_0";
}

}  // namespace swivel
