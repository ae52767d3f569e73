// Attention in plain double precision over the decoded cache: the yardstick of every attention kernel.
#ifndef SWIVEL_KERNEL_ATTEND_REFERENCE_H_
#define SWIVEL_KERNEL_ATTEND_REFERENCE_H_

#include <vector>

#include "kernel/attend/attend.h"

namespace swivel {

// Computes attend.h's definition for one query row, on the values that the codecs decode to (no error of integer arithmetic).
// `head` counts query heads, `stream` the streams of the call. Returns v.width values. Cost: num_cells scalar decodes.
std::vector<double> ReferenceAttendRow(const AttendArgs& args, int stream, int head, int query);

}  // namespace swivel

#endif  // SWIVEL_KERNEL_ATTEND_REFERENCE_H_
