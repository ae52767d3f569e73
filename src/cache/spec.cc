// What a spec means: codecs of layers, stores, sizes. Its grammar is in spec_items.cc and spec_text.cc.
#include "cache/spec.h"

#include <algorithm>

#include "cache/group_store.h"
#include "cache/segment_store.h"

namespace swivel {

CodecId CacheSpec::CodecFor(Side side, int ordinal, int num_layers) const {
  for (const LayerCodec& entry : layers) {
    if (entry.side == side && !entry.OfHeads() && entry.first <= ordinal && ordinal <= entry.last) return entry.codec;
  }
  if (ordinal < boundary_layers || ordinal >= num_layers - boundary_layers) return boundary_codec;
  return side == Side::kKey ? k : v;
}

CodecId CacheSpec::CodecFor(Side side, int ordinal, int num_layers, int head) const {
  for (const LayerCodec& entry : layers) {
    if (entry.side != side || !entry.OfHeads() || ordinal < entry.first || ordinal > entry.last) continue;
    if (entry.first_head <= head && head <= entry.last_head) return entry.codec;
  }
  return CodecFor(side, ordinal, num_layers);
}

bool CacheSpec::HasHeadCodecs() const {
  return std::any_of(layers.begin(), layers.end(), [](const LayerCodec& entry) { return entry.OfHeads(); });
}

bool CacheSpec::EncodesGroups() const {
  const auto does = [](CodecId id) { return GetCodec(id).encodes_groups(); };
  return does(k) || does(v) || (boundary_layers > 0 && does(boundary_codec)) ||
         std::any_of(layers.begin(), layers.end(), [&](const LayerCodec& entry) { return does(entry.codec); });
}

bool CacheSpec::LosesKeyBias(const Codec& codec) const {
  if (PacksGroups(codec)) return transform == Transform::kHadamard || !(TakesMean() || group_mean);
  // Codecs of whole groups have zero points of their own.
  return codec.code_bits <= 4 && !codec.encodes_groups();
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
    auto made = SegmentStore::Create(codec, Segments(side, codec, shape.width), ScaleFor(side, codec), shape);
    if (!made.ok()) return made.status();
    return std::unique_ptr<PackedStore>(std::move(*made));
  }
  auto made = GroupStore::Create(codec, side, ScaleFor(side, codec), shape);
  if (!made.ok()) return made.status();
  return std::unique_ptr<PackedStore>(std::move(*made));
}

size_t CacheSpec::GroupBytes(Side side, const Codec& codec, int width) const {
  if (!PacksGroups(codec)) return codec.group_bytes(width);
  const SegmentLayout layout = Segments(side, codec, width);
  return layout.CodesBytes() + layout.SideBytes();
}

double CacheSpec::BitsOf(Side side, const Codec& codec, int width) const {
  return 8.0 * static_cast<double>(GroupBytes(side, codec, width)) / (static_cast<double>(kGroupTokens) * width);
}

double CacheSpec::BitsOfLayer(Side side, int ordinal, int num_layers, int width, int num_heads) const {
  double bits = 0.0;
  for (int head = 0; head < num_heads; ++head) bits += BitsOf(side, GetCodec(CodecFor(side, ordinal, num_layers, head)), width);
  return bits / num_heads;
}

double CacheSpec::BitsPerValue(int k_width, int v_width, int num_layers, int num_heads) const {
  double bits = 0.0;
  for (int layer = 0; layer < num_layers; ++layer) {
    bits += BitsOfLayer(Side::kKey, layer, num_layers, k_width, num_heads) * k_width;
    bits += BitsOfLayer(Side::kValue, layer, num_layers, v_width, num_heads) * v_width;
  }
  return bits / (static_cast<double>(num_layers) * (k_width + v_width));
}

}  // namespace swivel
