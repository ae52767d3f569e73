// What a fuzz target provides and the driver calls; the name is libFuzzer's.
#ifndef SWIVEL_TESTS_FUZZ_FUZZ_H_
#define SWIVEL_TESTS_FUZZ_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// Where random inputs would get nowhere: valid examples that the driver cuts, joins and changes. A zero pointer ends the list.
struct FuzzSeed {
  const uint8_t* data;
  size_t size;
};
extern const FuzzSeed kFuzzSeeds[];

// A property that must hold for every input; a failure is a crash, which every driver reports with its input.
#define FUZZ_CHECK(condition)                                                             \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)

#endif  // SWIVEL_TESTS_FUZZ_FUZZ_H_
