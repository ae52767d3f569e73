#include "kernel/kernels.h"

namespace swivel {

namespace portable {
extern const Kernels kKernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Kernels kKernels;
}
namespace avx512 {
extern const Kernels kKernels;
}
#elif defined(__aarch64__)
namespace neon {
extern const Kernels kKernels;
}
#endif

const Kernels& KernelsFor(Target target) {
  switch (target) {
#if defined(__x86_64__)
    case Target::kAvx512:
      return avx512::kKernels;
    case Target::kAvx2:
      return avx2::kKernels;
#elif defined(__aarch64__)
    case Target::kNeon:
      return neon::kKernels;
#endif
    default:
      return portable::kKernels;
  }
}

}  // namespace swivel
