#include "cli/size_cache.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>

namespace swivel::cli {
namespace {

int64_t PadTo(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

struct StockType {
  const char* name;
  int block_values;
  int block_bytes;
};
constexpr StockType kStockTypes[] = {{"f32", 1, 4},    {"f16", 1, 2},    {"bf16", 1, 2},     {"q8_0", 32, 34}, {"q4_0", 32, 18},
                                     {"q4_1", 32, 20}, {"q5_0", 32, 22}, {"iq4_nl", 32, 18}, {"q5_1", 32, 24}};

// A row of llama.cpp's cache holds all heads of a cell.
StatusOr<uint64_t> StockRowBytes(const std::string& name, int64_t values) {
  for (const StockType& type : kStockTypes) {
    if (name != type.name) continue;
    if (values % type.block_values != 0)
      return Status::Unsupported(name + " needs rows of a multiple of " + std::to_string(type.block_values));
    return static_cast<uint64_t>(values / type.block_values * type.block_bytes);
  }
  return Status::Invalid("'" + name + "' is not a cache type of llama.cpp");
}

// One head's cells of one stream, all of them filled: the rows that stay exact as f16 (the window, and the group that is being filled; sinks are a
// page) have no packed copy, the others are whole groups.
StatusOr<uint64_t> PackedBytes(const CacheSpec& spec, Side side, const Codec& codec, int width, int k_width, int64_t cells) {
  if (width == 0) return uint64_t{0};
  const Status status = CheckWidth(codec, width);
  if (!status.ok()) return status;
  const int64_t exact = spec.ExactRows(cells, k_width);
  const auto groups = static_cast<uint64_t>(PadTo(cells - exact, kGroupTokens) / kGroupTokens);
  return groups * spec.GroupBytes(side, codec, width) + static_cast<uint64_t>(exact * width) * sizeof(uint16_t);
}

std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  uint64_t value;
  return file >> value ? std::optional(value) : std::nullopt;
}

}  // namespace

LayerCells CellsOf(const gguf::CachedLayer& layer, int64_t context, const CacheLayout& layout) {
  const int64_t sequences = std::max(layout.sequences, 1);
  int64_t cells = PadTo(context, 256);
  if (!layout.unified) cells = PadTo(cells / sequences, 256);
  if (layer.window > 0) {
    const int64_t window = int64_t{layer.window} * (layout.unified ? sequences : 1) + layout.micro_batch;
    cells = PadTo(std::min(cells, window), 256);
  }
  return {cells, layout.unified ? 1 : sequences};
}

StatusOr<uint64_t> CacheBytes(const gguf::ModelShape& shape, const SizedCache& cache, int64_t context, const CacheLayout& layout) {
  uint64_t total = 0;
  const int num_layers = static_cast<int>(shape.layers.size());
  for (int i = 0; i < num_layers; ++i) {
    const gguf::CachedLayer& layer = shape.layers[static_cast<size_t>(i)];
    const LayerCells cells = CellsOf(layer, context, layout);
    for (Side side : {Side::kKey, Side::kValue}) {
      const int width = side == Side::kKey ? layer.k_width : layer.v_width;
      if (cache.spec) {
        for (int head = 0; head < layer.heads_kv; ++head) {
          const Codec& codec = GetCodec(cache.spec->CodecFor(side, i, num_layers, head));
          const StatusOr<uint64_t> bytes = PackedBytes(*cache.spec, side, codec, width, layer.k_width, cells.cells);
          if (!bytes.ok()) return bytes.status();
          total += bytes.value() * static_cast<uint64_t>(cells.streams);
        }
      } else {
        const StatusOr<uint64_t> bytes = StockRowBytes(cache.stock_type, int64_t{width} * layer.heads_kv);
        if (!bytes.ok()) return bytes.status();
        total += bytes.value() * static_cast<uint64_t>(cells.cells * cells.streams);
      }
    }
  }
  return total;
}

uint64_t CacheValues(const gguf::ModelShape& shape, int64_t context, const CacheLayout& layout) {
  uint64_t total = 0;
  for (const gguf::CachedLayer& layer : shape.layers) {
    const LayerCells cells = CellsOf(layer, context, layout);
    total += static_cast<uint64_t>(cells.cells * cells.streams) * static_cast<uint64_t>((layer.k_width + layer.v_width)) *
             static_cast<uint64_t>(layer.heads_kv);
  }
  return total;
}

StatusOr<int64_t> LongestContext(const gguf::ModelShape& shape, const SizedCache& cache, uint64_t budget, const CacheLayout& layout) {
  int64_t fits = 0, too_long = kLongestContext / 256 + 1;  // in units of 256
  while (too_long - fits > 1) {
    const int64_t middle = fits + (too_long - fits) / 2;
    const StatusOr<uint64_t> bytes = CacheBytes(shape, cache, middle * 256, layout);
    if (!bytes.ok()) return bytes.status();
    (bytes.value() <= budget ? fits : too_long) = middle;
  }
  return fits * 256;
}

StatusOr<uint64_t> ParseBytes(const std::string& text) {
  char* end = nullptr;
  const double number = std::isdigit(static_cast<unsigned char>(text.empty() ? 'x' : text[0])) ? std::strtod(text.c_str(), &end) : -1;
  std::string unit;
  for (const char* c = end; c != nullptr && *c != '\0'; ++c) {
    if (*c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  }
  double factor = 0;
  const std::string units = "kmgt";
  if (unit.empty() || unit == "b") {
    factor = 1;
  } else if (const size_t power = units.find(unit[0]); power != std::string::npos) {
    const std::string rest = unit.substr(1);
    if (rest.empty() || rest == "b" || rest == "ib") factor = static_cast<double>(uint64_t{1} << (10 * (power + 1)));
  }
  if (end == nullptr || number < 0 || factor == 0 || !(number * factor < 0x1p62)) {
    return Status::Invalid("'" + text + "' is not a size such as 16G, 512M or 1000000");
  }
  return static_cast<uint64_t>(number * factor);
}

std::optional<uint64_t> FreeMemory() {
  std::optional<uint64_t> available;
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("MemAvailable:")) available = std::strtoull(line.c_str() + 13, nullptr, 10) * 1024;
  }
  // Inside a container /proc/meminfo shows the whole machine. "max" does not parse as a number: no limit.
  const std::optional<uint64_t> limit = ReadNumber("/sys/fs/cgroup/memory.max");
  const std::optional<uint64_t> used = ReadNumber("/sys/fs/cgroup/memory.current");
  if (available && limit && used) available = std::min(*available, *limit > *used ? *limit - *used : 0);
  return available;
}

std::string FormatBytes(uint64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1000 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.2f} GiB", mib / 1024);
}

}  // namespace swivel::cli
