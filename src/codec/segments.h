// Byte layout of groups that are packed as a whole: trellis codes in one or two segments of coordinates, 8-bit scales, a mean.
//
// Row codecs (codec.h) code each row by itself. Here 128 rows are coded together, so that what they share is stored once: the mean of the
// group's keys and the largest scale. Two segments of neighbouring coordinates have bits and scales of their own.
//
//   codes   segment 0 | segment 1: the codes of codec/trellis_planes.h at the segment's width, 16 w b bytes each
//   side    | u16 base_0 | u16 base_1 | u16 mean scale_0 | u16 mean scale_1 | 8 zero bytes | w x int8 mean (keys only) | 128 x u8 | 128 x u8 |
// A scale c stands for the e8m8 number base - (255 - c) 2^shift (integers: e8m8 rises with its bits), 0 for c = 0: keys have 64 steps an
// octave over 4 octaves, values 16 over 16. The mean is int8 times its segment's scale.
// Codes start at multiples of 64 bytes; the side data have a region of their own, so that they do not push codes off their lines.
#ifndef SWIVEL_CODEC_SEGMENTS_H_
#define SWIVEL_CODEC_SEGMENTS_H_

#include <cstddef>
#include <cstdint>

#include "codec/codec.h"

namespace swivel {

inline constexpr int kMaxSegments = 2;
inline constexpr size_t kSegmentHeader = 16;

struct Segment {
  int begin = 0;  // first coordinate
  int width = 0;  // a multiple of 16
  int bits = 0;   // 1 to 6
};

struct SegmentLayout {
  Side side = Side::kKey;
  int width = 0;
  int count = 0;
  Segment segment[kMaxSegments];
  bool has_mean = false;
  int scale_shift = 0;

  size_t CodesOffset(int s) const { return s == 0 ? 0 : SegmentBytes(segment[0]); }
  size_t CodesBytes() const { return SegmentBytes(segment[0]) + SegmentBytes(segment[1]); }
  size_t ScalesOffset(int s) const { return kSegmentHeader + (has_mean ? static_cast<size_t>(width) : 0) + static_cast<size_t>(kGroupTokens) * s; }
  size_t SideBytes() const { return ScalesOffset(count); }

 private:
  static size_t SegmentBytes(const Segment& s) { return static_cast<size_t>(kGroupTokens / 8) * s.width * s.bits; }
};

// The layouts of keys of `bits` bits on average, 2 to 4: two segments of bits + 1 and bits - 1, or one; and of values.
SegmentLayout KeySegments(int width, int bits, bool two, bool has_mean);
SegmentLayout ValueSegments(int width, int bits);

// The e8m8 scale that a stored byte stands for, and the byte nearest to a scale of at most `base`. A base below SmallestBase stands for a
// group of zeros.
uint16_t SegmentScale(const SegmentLayout& layout, uint16_t base, uint8_t code);
uint8_t SegmentScaleCode(const SegmentLayout& layout, uint16_t base, uint16_t scale);
inline uint16_t SmallestBase(const SegmentLayout& layout) { return static_cast<uint16_t>(255 << layout.scale_shift); }

uint16_t SegmentBase(const uint8_t* side, int segment);
void SetSegmentBase(uint8_t* side, int segment, uint16_t base);

// The mean of the group's transformed rows, [width]: stored rounded, read as it was stored. Zeros where the layout has none.
void SetGroupMean(const SegmentLayout& layout, const float* mean, uint8_t* side);
void GetGroupMean(const SegmentLayout& layout, const uint8_t* side, float* mean);

// Row `token` of a group in the frame of its codes, the group's mean included.
void DecodeSegmentRow(const SegmentLayout& layout, const uint8_t* codes, const uint8_t* side, int token, float* row);

}  // namespace swivel

#endif  // SWIVEL_CODEC_SEGMENTS_H_
