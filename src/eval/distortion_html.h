// Rows of `swivel distortion` as one HTML page: a chart of rate against distortion for each source and width, and the figures below it.
//
// The page is a file of its own: no script, nothing fetched, inline SVG, colours for light and dark. It can be opened from a disk.
#ifndef SWIVEL_EVAL_DISTORTION_HTML_H_
#define SWIVEL_EVAL_DISTORTION_HTML_H_

#include <string>
#include <vector>

#include "base/cpu.h"
#include "eval/distortion.h"

namespace swivel {

std::string DistortionHtml(const std::vector<DistortionRow>& rows, Target target);

// A codec's name without its first number, which is the rate: "turbo" of "turbo3" and "turbo2.5", "turboprod_orth" of "turboprod2_orth".
// Points of a family have one colour and are joined by a line.
std::string CodecFamily(const std::string& codec);

}  // namespace swivel

#endif  // SWIVEL_EVAL_DISTORTION_HTML_H_
