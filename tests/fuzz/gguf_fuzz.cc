// The GGUF header reader on damaged files: a Status or a header, never a crash and never more memory than the bytes warrant.
#include <span>
#include <string>

#include "fuzz.h"
#include "gguf/header.h"
#include "gguf/shape.h"

namespace {

// A small valid file: GGUF v3, one tensor, keys of every interesting kind.
#define U32(n)                                                                                                   \
  static_cast<uint8_t>((n)&0xff), static_cast<uint8_t>((n) >> 8 & 0xff), static_cast<uint8_t>((n) >> 16 & 0xff), \
      static_cast<uint8_t>((n) >> 24)
#define U64(n) U32(n), 0, 0, 0, 0
constexpr uint8_t kValid[] = {'G', 'G', 'U', 'F', U32(3), U64(1), U64(6),
                              // general.architecture = "llama"
                              U64(20), 'g', 'e', 'n', 'e', 'r', 'a', 'l', '.', 'a', 'r', 'c', 'h', 'i', 't', 'e', 'c', 't', 'u', 'r', 'e',
                              U32(8), U64(5), 'l', 'l', 'a', 'm', 'a',
                              // llama.block_count = 2
                              U64(17), 'l', 'l', 'a', 'm', 'a', '.', 'b', 'l', 'o', 'c', 'k', '_', 'c', 'o', 'u', 'n', 't', U32(4), U32(2),
                              // llama.embedding_length = 64
                              U64(22), 'l', 'l', 'a', 'm', 'a', '.', 'e', 'm', 'b', 'e', 'd', 'd', 'i', 'n', 'g', '_', 'l', 'e', 'n', 'g',
                              't', 'h', U32(4), U32(64),
                              // llama.attention.head_count = [2, 1] as an array of i32
                              U64(26), 'l', 'l', 'a', 'm', 'a', '.', 'a', 't', 't', 'e', 'n', 't', 'i', 'o', 'n', '.', 'h', 'e', 'a', 'd',
                              '_', 'c', 'o', 'u', 'n', 't', U32(9), U32(5), U64(2), U32(2), U32(1),
                              // an array of two strings and a bool
                              U64(1), 't', U32(9), U32(8), U64(2), U64(1), 'a', U64(2), 'b', 'c', U64(1), 'x', U32(7), 1,
                              // tensor "w": 2 dimensions 32 x 4, f16, offset 0
                              U64(1), 'w', U32(2), U64(32), U64(4), U32(1), U64(0)};

}  // namespace

const FuzzSeed kFuzzSeeds[] = {{kValid, sizeof(kValid)}, {kValid, 24}, {nullptr, 0}};

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace swivel::gguf;
  const swivel::StatusOr<Header> header = ParseHeader(std::span<const uint8_t>(data, size));
  if (!header.ok()) {
    FUZZ_CHECK(!header.status().message().empty());
    return 0;
  }
  const Header& value = header.value();
  FUZZ_CHECK(value.complete || !value.end_note.empty());
  FUZZ_CHECK(value.tensors.size() <= size);
  size_t kept = 0;
  for (const auto& [key, held] : value.values) {
    kept += key.size() + held.integers.size() + held.reals.size() + held.strings.size();
    (void)value.Integer(key);
    (void)value.String(key);
    (void)value.Integers(key);
  }
  FUZZ_CHECK(kept <= size);
  (void)value.TensorBytes();
  for (const Tensor& tensor : value.tensors) (void)TensorTypeName(tensor.type);
  const swivel::StatusOr<ModelShape> shape = ReadShape(value);
  if (shape.ok()) {
    for (const CachedLayer& layer : shape.value().layers) FUZZ_CHECK(layer.heads_kv > 0 && layer.k_width > 0 && layer.v_width >= 0);
  } else {
    FUZZ_CHECK(!shape.status().message().empty());
  }
  (void)KeyBiasTensors(value);
  return 0;
}
