// Every kernel body, in the order of their dependencies. Included once by each file of this folder, inside its region and namespace.
#include "kernel/rotate/rotate-inl.h"
#include "kernel/rotate/multiply-inl.h"
#include "kernel/encode/encode-inl.h"
#include "kernel/trellis/encode-inl.h"
#include "kernel/encode/encode_row-inl.h"
#include "kernel/levels/levels-inl.h"
#include "kernel/score/score-inl.h"
#include "kernel/accumulate/accumulate-inl.h"
#include "kernel/trellis/levels-inl.h"
#include "kernel/trellis/score-inl.h"
#include "kernel/trellis/accumulate-inl.h"
#include "kernel/attend/forms-inl.h"
#include "kernel/attend/softmax-inl.h"
#include "kernel/attend/rows-inl.h"
#include "kernel/attend/sparse_v-inl.h"
#include "kernel/attend/exact-inl.h"
#include "kernel/attend/attend-inl.h"

// Explicit linkage: a const object would be internal to this file.
extern const Kernels kKernels;
const Kernels kKernels = {SWIVEL_TARGET_ID, &RotateRow, &InverseRotateRow, &EncodeRow, &EncodeTrellis, &MultiplyExactly, &AttendThread};
