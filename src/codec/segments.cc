#include "codec/segments.h"

#include <algorithm>
#include <cmath>

#include "base/half.h"
#include "codec/tcq.h"
#include "math/key_transform.h"

namespace swivel {
namespace {

uint16_t Load16(const uint8_t* at) { return static_cast<uint16_t>(at[0] | at[1] << 8); }
void Store16(uint8_t* at, uint16_t value) {
  at[0] = static_cast<uint8_t>(value & 0xff);
  at[1] = static_cast<uint8_t>(value >> 8);
}

constexpr size_t kMeanScales = 4;  // within the header

}  // namespace

SegmentLayout KeySegments(int width, int bits, bool two, bool has_mean) {
  SegmentLayout layout = {.side = Side::kKey, .width = width, .count = two ? 2 : 1, .segment = {}, .has_mean = has_mean, .scale_shift = 2};
  const int split = two ? FirstSegment(width) : width;
  layout.segment[0] = {0, split, two ? bits + 1 : bits};
  if (two) layout.segment[1] = {split, width - split, bits - 1};
  return layout;
}

SegmentLayout ValueSegments(int width, int bits) {
  SegmentLayout layout = {.side = Side::kValue, .width = width, .count = 1, .segment = {}, .has_mean = false, .scale_shift = 4};
  layout.segment[0] = {0, width, bits};
  return layout;
}

uint16_t SegmentScale(const SegmentLayout& layout, uint16_t base, uint8_t code) {
  return code == 0 ? uint16_t{0} : static_cast<uint16_t>(base - ((255 - code) << layout.scale_shift));
}

uint8_t SegmentScaleCode(const SegmentLayout& layout, uint16_t base, uint16_t scale) {
  if (scale == 0 || base < SmallestBase(layout)) return 0;
  const int half = 1 << layout.scale_shift >> 1;
  const int steps = (base - scale + half) >> layout.scale_shift;
  return static_cast<uint8_t>(std::max(1, 255 - steps));
}

uint16_t SegmentBase(const uint8_t* side, int segment) { return Load16(side + 2 * segment); }
void SetSegmentBase(uint8_t* side, int segment, uint16_t base) { Store16(side + 2 * segment, base); }

void SetGroupMean(const SegmentLayout& layout, const float* mean, uint8_t* side) {
  if (!layout.has_mean) return;
  for (int s = 0; s < layout.count; ++s) {
    const Segment& segment = layout.segment[s];
    float largest = 0.0f;
    for (int i = 0; i < segment.width; ++i) largest = std::max(largest, std::abs(mean[segment.begin + i]));
    const uint16_t stored = ScaleFromF32(largest / 127.0f);
    const float scale = F32FromScale(stored);
    Store16(side + kMeanScales + 2 * s, stored);
    for (int i = segment.begin; i < segment.begin + segment.width; ++i) {
      const float level = scale > 0.0f ? std::clamp(std::nearbyint(mean[i] / scale), -127.0f, 127.0f) : 0.0f;
      side[kSegmentHeader + i] = static_cast<uint8_t>(static_cast<int8_t>(level));
    }
  }
}

void GetGroupMean(const SegmentLayout& layout, const uint8_t* side, float* mean) {
  if (!layout.has_mean) return std::fill(mean, mean + layout.width, 0.0f);
  for (int s = 0; s < layout.count; ++s) {
    const Segment& segment = layout.segment[s];
    const float scale = F32FromScale(Load16(side + kMeanScales + 2 * s));
    for (int i = segment.begin; i < segment.begin + segment.width; ++i) {
      mean[i] = static_cast<float>(static_cast<int8_t>(side[kSegmentHeader + i])) * scale;
    }
  }
}

void DecodeSegmentRow(const SegmentLayout& layout, const uint8_t* codes, const uint8_t* side, int token, float* row) {
  for (int s = 0; s < layout.count; ++s) {
    const Segment& segment = layout.segment[s];
    const uint16_t scale = SegmentScale(layout, SegmentBase(side, s), side[layout.ScalesOffset(s) + token]);
    DecodeTrellisCodes(segment.bits, codes + layout.CodesOffset(s), segment.width, layout.side, token, F32FromScale(scale), row + segment.begin);
  }
  float mean[kMaxHeadWidth];
  GetGroupMean(layout, side, mean);
  for (int i = 0; i < layout.width; ++i) row[i] += mean[i];
}

}  // namespace swivel
