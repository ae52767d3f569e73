// Trellis codes apart from where their scales are stored: the codecs tcq1 to tcq6 and the segments of codec/segments.h share them.
#ifndef SWIVEL_CODEC_TCQ_H_
#define SWIVEL_CODEC_TCQ_H_

#include <cstdint>

#include "codec/codec.h"

namespace swivel {

// Writes the codes of R row, R the frame, as row `token` of 128 (codec/trellis_planes.h), and returns the scale (e8m8): 0 for a row of
// zeros, kScaleNan for one that holds a NaN or an infinity. `width` is a multiple of 16, `bits` 1 to 6.
uint16_t EncodeTrellisCodes(int bits, Frame frame, const float* row, int width, Side side, ScaleMode mode, uint8_t* codes, int token);
// The levels of row `token` times `scale`, in the frame of the codes.
void DecodeTrellisCodes(int bits, const uint8_t* codes, int width, Side side, int token, float scale, float* row);

}  // namespace swivel

#endif  // SWIVEL_CODEC_TCQ_H_
