// The reader of spec files: no text crashes it or makes it throw, and what it accepts is a spec that one line can say.
#include <string>
#include <string_view>

#include "cache/spec_file.h"
#include "fuzz.h"

namespace {

#define SWIVEL_SEED(text) \
  { reinterpret_cast<const uint8_t*>(text), sizeof(text) - 1 }

}  // namespace

const FuzzSeed kFuzzSeeds[] = {
    SWIVEL_SEED("preset = \"balanced\"\nk = \"tcq4\"  # more\nsinks = 8\n"),
    SWIVEL_SEED("k = \"tcq3\"\nv = 'tcq2'\ntransform = \"eq\"\ngroup_mean = false\nshrink = 0.25\ncalibration = \"m.swivel\"\n"),
    SWIVEL_SEED("[[layer]]\nrange = \"0-1\"\ncodec = \"q8_0\"\n[[layer]]\nrange = 7\nk = \"f16\"\n[expected]\nbits = 3.25\nkld = [1e-3, {a = 1}]\n"),
    SWIVEL_SEED("scale = \"ls\"\nk_scale = \"\"\"matched\"\"\"\nlayer = [{range = \"2\", v = \"turbo2\"}]\n"),
    SWIVEL_SEED("a.b.c = 1979-05-27T07:32:00Z\n\"k=\" = nan\n"),
    {nullptr, 0}};

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const swivel::StatusOr<swivel::CacheSpec> spec = swivel::ParseSpecFile(text, "f.toml");
  if (!spec.ok()) {
    FUZZ_CHECK(spec.status().code() == swivel::StatusCode::kInvalidArgument);
    FUZZ_CHECK(spec.status().message().starts_with("f.toml:"));
    return 0;
  }
  const std::string canonical = spec.value().ToString();
  const swivel::StatusOr<swivel::CacheSpec> again = swivel::ParseSpec(canonical);
  FUZZ_CHECK(again.ok() && again.value().ToString() == canonical);
  return 0;
}
