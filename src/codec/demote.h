// Fewer bits for codes that are stored already: nested use of the Lloyd-Max books.
//
// The cells of a book of 2^b levels, merged in pairs, are nearly those of the book of 2^(b-1): the lowest bit of a code can be dropped,
// and what is left is a code that has 0.9 % more distortion than one made for that width (4 bits to 3; 4 to 2: 2.4 %; Gaussian limit, at
// width 128 1.2 and 2.7 %, with outlier channels 4 and 7 %: demote_test.cc). No row is decoded and no original is needed. It is the base
// for letting old tokens decay.
//
// The best levels of cut codes (CutLevels) are the target book's stretched by a factor that is almost the same for all of them (1.039 to
// 1.046 for 4 to 3; 1.063 and 1.097 for 4 to 2). So no other table is needed either: DemoteGroup puts the factor into the scales and its
// result is a group of the target codec like any other.
#ifndef SWIVEL_CODEC_DEMOTE_H_
#define SWIVEL_CODEC_DEMOTE_H_

#include <cstdint>
#include <span>

#include "base/status.h"
#include "codec/codec.h"

namespace swivel {

// kUnsupported with the reason unless both codecs are Lloyd-Max table codes (turbo, planar, iso, rotor) in the same frames and `to` has
// fewer bits.
Status CheckDemote(const Codec& from, const Codec& to);

// What the top `to_bits` bits of a Lloyd-Max code of `from_bits` bits stand for, with the scale unchanged: 4 to 3, 4 to 2, 3 to 2.
std::span<const float> CutLevels(int from_bits, int to_bits);

// Rewrites a group of `from` as a group of `to` (group_bytes(width) of each; they may not overlap), where CheckDemote allows it. The new
// scale of a row keeps, by its mode, what the old one kept: with the codes c and c' before and after
//   matched  s' = s ||c|| / ||c'||      unbiased  s' = s ||c||^2 / <c', c>      least squares  s' = s <c', c> / ||c'||^2
// Rows that are zero, damaged or never written stay so. Cost: a pass over the bytes and a count of codes, no rotation.
void DemoteGroup(const Codec& from, const Codec& to, int width, Side side, ScaleMode mode, const uint8_t* group, uint8_t* out);

}  // namespace swivel

#endif  // SWIVEL_CODEC_DEMOTE_H_
