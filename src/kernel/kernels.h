// The kernels of one target, chosen once. Each target's table is compiled from the same bodies (the *-inl.h files).
#ifndef SWIVEL_KERNEL_KERNELS_H_
#define SWIVEL_KERNEL_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "codec/codec.h"
#include "codec/segments.h"
#include "math/key_transform.h"

namespace swivel {

// Group g of head h in stream s starts at base + s * stream + g * group + h * head (bytes).
struct GroupStrides {
  size_t group = 0, head = 0, stream = 0;
};

// Packed rows as the kernels see them.
struct KvView {
  const Codec* codec = nullptr;
  int width = 0;
  const uint8_t* base = nullptr;
  GroupStrides strides;

  // Groups that are packed as a whole (codec/segments.h): `codec` is then the trellis codec of the mean number of bits, `base` points to
  // the codes. Null: groups of the codec itself.
  const SegmentLayout* segments = nullptr;
  const uint8_t* side = nullptr;
  GroupStrides side_strides = {};
  // Keys in segments: [heads], the change of basis that takes the place of the codec's frame. Null while it is not known: then no cell may
  // be packed.
  const KeyTransform* transforms = nullptr;
};

class AttendPlan;

struct Kernels {
  Target target;
  // Rotates `row` (width floats, width a multiple of 16) in place; bit-exact with Rotate and InverseRotate of math/rotation.h.
  void (*rotate)(Frame frame, float* row, int width);
  void (*inverse_rotate)(Frame frame, float* row, int width);
  // Encodes one row into a group; bytes equal codec.encode on every target.
  void (*encode)(const Codec& codec, const float* row, int width, Side side, ScaleMode mode, uint8_t* group, int token);
  // EncodeTrellisCodes of codec/tcq.h: the same bytes and the same scale.
  uint16_t (*encode_trellis)(int bits, Frame frame, const float* row, int width, Side side, ScaleMode mode, uint8_t* codes, int token);
  // y = M x for a matrix stored by columns (math/key_transform.h), each y_i added up in the order of the columns, without fused
  // multiply-add: the same on every target. `width` is a multiple of 16; x and y may not overlap.
  void (*multiply)(const float* columns, const float* x, int width, float* y);
  // One thread's share of an attention call; see attend/attend.h.
  void (*attend)(AttendPlan& plan, int thread, int num_threads);
};

// The table of a target that this processor supports (precondition).
const Kernels& KernelsFor(Target target);

}  // namespace swivel

#endif  // SWIVEL_KERNEL_KERNELS_H_
