// Every key of the grammar: what its values may be and what they set.
#include "cache/spec_items.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "cache/spec_file.h"
#include "cache/spec_layers.h"
#include "cache/spec_names.h"

namespace swivel {
namespace {

constexpr ScaleMode kScaleModes[] = {ScaleMode::kMatched, ScaleMode::kUnbiased, ScaleMode::kLeastSquares};

StatusOr<ScaleMode> FindScaleMode(std::string_view name) {
  for (ScaleMode mode : kScaleModes) {
    if (name == ScaleModeName(mode)) return mode;
  }
  return Status::Invalid("unknown scale mode '" + std::string(name) + "'; accepted: matched, unbiased, ls");
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

Status SetDefer(std::string_view value, CacheSpec* spec) {
  spec->defer_prefill = value == "prefill";
  if (value == "prefill" || value == "off") return Status();
  return Status::Invalid("defer='" + std::string(value) + "' is neither off nor prefill");
}

Status SetStore(std::string_view value, CacheSpec* spec) {
  if (value.empty()) return Status::Invalid("store= wants the path of a file that keeps what a cache finds out about its keys");
  if (value.find(',') != std::string_view::npos) return Status::Invalid("store='" + std::string(value) + "': the path may hold no comma");
  spec->store = value;
  return Status();
}

constexpr int kLeastSelfTokens = 64, kMostSelfTokens = 8192;

Status SetCalibration(std::string_view value, CacheSpec* spec) {
  if (value.empty()) return Status::Invalid("calibration= wants 'self', 'self:TOKENS' or the path of a file that swivel calibrate has written");
  spec->self_tokens = 0;
  if (value.starts_with(kSelfTokensPrefix)) {
    spec->calibration = "self";
    const Status status = SetNumber("calibration", value.substr(kSelfTokensPrefix.size()), kMostSelfTokens, &spec->self_tokens);
    if (status.ok() && spec->self_tokens >= kLeastSelfTokens) return status;
    return Status::Invalid("calibration='" + std::string(value) + "' is no number of tokens for a basis; accepted: " +
                           std::to_string(kLeastSelfTokens) + " to " + std::to_string(kMostSelfTokens));
  }
  if (value.find(',') != std::string_view::npos) return Status::Invalid("calibration='" + std::string(value) + "': the path may hold no comma");
  spec->calibration = value;
  return Status();
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
    {"mean", [](std::string_view value, CacheSpec* spec) { return SetFlag("mean", value, &spec->mean.emplace()); }},
    {"group_mean", [](std::string_view value, CacheSpec* spec) { return SetFlag("group_mean", value, &spec->group_mean); }},
    {"halves", [](std::string_view value, CacheSpec* spec) { return SetFlag("halves", value, &spec->halves); }},
    {"sinks", [](std::string_view value, CacheSpec* spec) { return SetNumber("sinks", value, kGroupTokens, &spec->sinks); }},
    {"window", [](std::string_view value, CacheSpec* spec) { return SetNumber("window", value, 1 << 20, &spec->window); }},
    {"decay", SetDecay},
    {"budget", SetBudget},
    {"defer", SetDefer},
    {"calibration", SetCalibration},
    {"store", SetStore},
    {"shrink", SetShrink},
    {"sparse_v", SetSparseV},
};

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

std::string SpecKeys() {
  std::string names;
  for (const Key& key : kKeys) names += (names.empty() ? "" : ", ") + std::string(key.name);
  return names;
}

bool IsSpecKey(std::string_view name) {
  return std::any_of(std::begin(kKeys), std::end(kKeys), [&](const Key& key) { return name == key.name; });
}

}  // namespace swivel
