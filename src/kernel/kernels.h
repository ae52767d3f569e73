// The kernels of one target, chosen once. Each target's table is compiled from the same bodies (the *-inl.h files).
#ifndef SWIVEL_KERNEL_KERNELS_H_
#define SWIVEL_KERNEL_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "codec/codec.h"

namespace swivel {

// Packed rows as the kernels see them. Group g of head h in stream s starts at base + s * stream_stride + g * group_stride + h * head_stride (bytes).
struct KvView {
  const Codec* codec = nullptr;
  int width = 0;
  const uint8_t* base = nullptr;
  size_t group_stride = 0;
  size_t head_stride = 0;
  size_t stream_stride = 0;
};

class AttendPlan;

struct Kernels {
  Target target;
  // Rotates `row` (width floats, width a multiple of 16) in place; bit-exact with Rotate and InverseRotate of math/rotation.h.
  void (*rotate)(Frame frame, float* row, int width);
  void (*inverse_rotate)(Frame frame, float* row, int width);
  // Encodes one row into a group; bytes equal codec.encode on every target.
  void (*encode)(const Codec& codec, const float* row, int width, Side side, ScaleMode mode, uint8_t* group, int token);
  // One thread's share of an attention call; see attend/attend.h.
  void (*attend)(AttendPlan& plan, int thread, int num_threads);
};

// The table of a target that this processor supports (precondition).
const Kernels& KernelsFor(Target target);

}  // namespace swivel

#endif  // SWIVEL_KERNEL_KERNELS_H_
