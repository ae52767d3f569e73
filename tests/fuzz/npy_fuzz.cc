// The reader of .npy headers on damaged files: a Status or a layout whose values are what the file holds, never a crash.
#include <string_view>

#include "eval/npy.h"
#include "fuzz.h"

namespace {

constexpr uint8_t kVersion1[] =
    "\x93NUMPY\x01\x00\x47\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }           \n"
    "abcdefghijklmnopqrstuvwx";
constexpr uint8_t kVersion3[] = "\x93NUMPY\x03\x00\x3a\x00\x00\x00{\"shape\":(1,2,),\"descr\":\"<f2\",\"fortran_order\":False,}    \nabcd";
constexpr uint8_t kRecord[] = "\x93NUMPY\x01\x00\x49\x00{'descr': [('a', '<f8')], 'fortran_order': True, 'shape': (12,), }      \nabcd";

// The lengths in the headers are right, so that changes of these get past them.
static_assert(sizeof(kVersion1) - 1 == 10 + 0x47 + 24 && sizeof(kVersion3) - 1 == 12 + 0x3a + 4 && sizeof(kRecord) - 1 == 10 + 0x49 + 4);

}  // namespace

// Without the terminating zero of the literals.
const FuzzSeed kFuzzSeeds[] = {
    {kVersion1, sizeof(kVersion1) - 1}, {kVersion3, sizeof(kVersion3) - 1}, {kRecord, sizeof(kRecord) - 1}, {nullptr, 0}};

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const swivel::StatusOr<swivel::NpyLayout> layout = swivel::ParseNpyHeader(bytes, size);
  if (!layout.ok()) {
    FUZZ_CHECK(!layout.status().message().empty());
    return 0;
  }
  const swivel::NpyLayout& value = layout.value();
  FUZZ_CHECK(value.rows > 0 && value.columns > 0 && value.begin < size);
  FUZZ_CHECK(value.value_bytes == 2 || value.value_bytes == 4 || value.value_bytes == 8);
  FUZZ_CHECK(value.rows * value.columns * value.value_bytes == size - value.begin);
  return 0;
}
