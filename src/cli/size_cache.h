// How many bytes a cache takes: llama.cpp's own and Swivel's, for any model shape and context.
#ifndef SWIVEL_CLI_SIZE_CACHE_H_
#define SWIVEL_CLI_SIZE_CACHE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cache/spec.h"
#include "gguf/shape.h"

namespace swivel::cli {

// How a context is laid out, in llama.cpp's words.
struct CacheLayout {
  int sequences = 1;      // -np
  bool unified = false;   // -kvu: the sequences share one stream of cells
  int micro_batch = 512;  // -ub
};

// Cells of one layer, and streams that each have that many; llama.cpp's arithmetic (multiples of 256; a windowed layer keeps the window
// and one micro batch).
struct LayerCells {
  int64_t cells = 0;
  int64_t streams = 1;
};
LayerCells CellsOf(const gguf::CachedLayer& layer, int64_t context, const CacheLayout& layout);

// One kind of cache. Exactly one of the two is set.
struct SizedCache {
  std::string label;
  std::string stock_type;         // f16, q8_0, q4_0, …: a tensor type of llama.cpp
  std::optional<CacheSpec> spec;  // Swivel
};

// Bytes of the whole cache. kUnsupported when the type or a codec cannot serve a width of the model.
StatusOr<uint64_t> CacheBytes(const gguf::ModelShape& shape, const SizedCache& cache, int64_t context, const CacheLayout& layout);

// Values (K and V) that these bytes hold.
uint64_t CacheValues(const gguf::ModelShape& shape, int64_t context, const CacheLayout& layout);

// The longest context, a multiple of 256, whose cache fits `budget` bytes; 0 when not even 256 tokens do. At most kLongestContext.
inline constexpr int64_t kLongestContext = int64_t{1} << 30;
StatusOr<int64_t> LongestContext(const gguf::ModelShape& shape, const SizedCache& cache, uint64_t budget, const CacheLayout& layout);

// "16G", "512 MiB", "1.5g", "1000000": bytes; K, M, G, T are powers of 1024. kInvalidArgument otherwise.
StatusOr<uint64_t> ParseBytes(const std::string& text);
// Memory that new programs can have: MemAvailable, or what a control group leaves if that is less. Nothing when unknown.
std::optional<uint64_t> FreeMemory();
// "45.0 MiB".
std::string FormatBytes(uint64_t bytes);

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_SIZE_CACHE_H_
