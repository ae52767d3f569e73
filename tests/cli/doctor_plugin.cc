// Backend plugins that misbehave: one that refuses every host, one that crashes, one that never returns.
#include <unistd.h>

#include <cstdlib>

extern "C" __attribute__((visibility("default"))) void* ggml_backend_init() {
#if defined(SWIVEL_TEST_crash)
  std::abort();
#elif defined(SWIVEL_TEST_hang)
  for (;;) pause();
#endif
  return nullptr;
}
