#include "tune/candidates.h"

#include <algorithm>
#include <utility>

namespace swivel {

CodecId Tcq(int bits) { return bits == 2 ? CodecId::kTcq2 : bits == 3 ? CodecId::kTcq3 : CodecId::kTcq4; }
int BitsOfTcq(CodecId id) { return id == CodecId::kTcq2 ? 2 : id == CodecId::kTcq3 ? 3 : 4; }

std::string LayersText(const char* side, int bits, int first, int last) {
  return side + std::to_string(bits) + " in " + std::to_string(first) + "-" + std::to_string(last);
}

CacheSpec WithLayers(CacheSpec spec, std::vector<LayerCodec> layers) {
  spec.layers = std::move(layers);
  std::sort(spec.layers.begin(), spec.layers.end());
  return spec;
}

bool Candidates::Fits(const TuneCost& cost) const {
  if (problem_.limit.bits) return cost.bits <= *problem_.limit.bits + 1e-9;
  if (problem_.limit.bytes) return cost.bytes <= *problem_.limit.bytes;
  return true;
}

bool Candidates::Fits(const CacheSpec& spec) const { return Fits(CostOf(spec, problem_.layers)); }

CacheSpec Candidates::Pair(int k, int v) const {
  CacheSpec spec = ParseSpec("balanced").value();
  spec.k = Tcq(k);
  spec.v = Tcq(v);
  spec.calibration = problem_.calibration;
  return spec;
}

CacheSpec Candidates::Preset(const SpecPreset& preset) const {
  CacheSpec spec = ParseSpec(preset.spec).value();
  spec.calibration = problem_.calibration;
  return spec;
}

std::vector<NamedSpec> Candidates::Policies(const CacheSpec& base) const {
  std::vector<NamedSpec> all;
  const auto add = [&](const std::string& change, auto set) {
    CacheSpec spec = base;
    set(&spec);
    if (spec.ToString() != base.ToString() && Fits(spec)) all.push_back({change, spec});
  };
  add("transform=eq", [](CacheSpec* spec) { spec->transform = Transform::kDiagonal; });
  add("group_mean=off", [](CacheSpec* spec) { spec->group_mean = false; });
  add("sinks=16", [](CacheSpec* spec) { spec->sinks = 16; });
  add("halves=off", [](CacheSpec* spec) { spec->halves = false; });
  // The other of the two factors that are used: .3 for self-calibration, .5 for a file.
  const double shrink = base.calibration == "self" ? 0.5 : 0.3;
  add("shrink", [&](CacheSpec* spec) { spec->shrink = shrink; });
  // A window costs bytes but no bits a packed value; under a limit on bits it would win by not being counted.
  if (!problem_.limit.bits) {
    for (int window : {256, 64, 512}) add("window=" + std::to_string(window), [&](CacheSpec* spec) { spec->window = window; });
  }
  for (NamedSpec& named : all) {
    if (named.change == "shrink") named.change = base.calibration == "self" ? "shrink=.5" : "shrink=.3";
  }
  return all;
}

std::vector<NamedSpec> Candidates::Layers(const CacheSpec& base) const {
  std::vector<NamedSpec> all;
  const int n = static_cast<int>(problem_.layers.size());
  for (Side side : {Side::kKey, Side::kValue}) {
    const CodecId now = side == Side::kKey ? base.k : base.v;
    const int bits = BitsOfTcq(now);
    if (bits == 4) continue;
    const char* name = side == Side::kKey ? "K" : "V";
    int most = 0;
    while (most + 1 < n && Fits(WithLayers(base, {{0, most, side, Tcq(bits + 1)}}))) ++most;
    if (most >= 2) {
      const int half = most / 2;
      all.push_back({LayersText(name, bits + 1, 0, most - 1), WithLayers(base, {{0, most - 1, side, Tcq(bits + 1)}})});
      all.push_back({LayersText(name, bits + 1, n - most, n - 1), WithLayers(base, {{n - most, n - 1, side, Tcq(bits + 1)}})});
      all.push_back({LayersText(name, bits + 1, 0, half - 1) + "," + std::to_string(n - half) + "-" + std::to_string(n - 1),
                     WithLayers(base, {{0, half - 1, side, Tcq(bits + 1)}, {n - half, n - 1, side, Tcq(bits + 1)}})});
    } else if (bits > 2 && n >= 6) {
      const int part = n / 6;
      const LayerCodec first = {0, part - 1, side, Tcq(bits + 1)}, last = {n - part, n - 1, side, Tcq(bits + 1)};
      LayerCodec fewer_first = first, fewer_last = last;
      fewer_first.codec = fewer_last.codec = Tcq(bits - 1);
      all.push_back({LayersText(name, bits + 1, first.first, first.last) + " " + LayersText(name, bits - 1, last.first, last.last), WithLayers(base, {first, fewer_last})});
      all.push_back({LayersText(name, bits - 1, first.first, first.last) + " " + LayersText(name, bits + 1, last.first, last.last), WithLayers(base, {fewer_first, last})});
    }
  }
  std::erase_if(all, [&](const NamedSpec& named) { return !Fits(named.spec); });
  return all;
}

}  // namespace swivel
