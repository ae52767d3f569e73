#include "llama/cache_choice.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cache/spec.h"
#include "ggml.h"

namespace swivel {
namespace {

struct StockType {
  const char* name;
  ggml_type type;
  bool needs_prefix;  // without "stock:" the name is read as a Swivel spec
};
constexpr std::array<StockType, 9> kStockTypes = {{
    {"f16", GGML_TYPE_F16, false},
    {"q8_0", GGML_TYPE_Q8_0, false},
    {"q4_0", GGML_TYPE_Q4_0, false},
    {"bf16", GGML_TYPE_BF16, true},
    {"q5_0", GGML_TYPE_Q5_0, true},
    {"q5_1", GGML_TYPE_Q5_1, true},
    {"q4_1", GGML_TYPE_Q4_1, true},
    {"iq4_nl", GGML_TYPE_IQ4_NL, true},
    {"f32", GGML_TYPE_F32, true},
}};

std::string Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1));
}

// Empty ones left out.
std::vector<std::string> TrimmedPieces(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (std::string piece = Trim(text.substr(0, end)); !piece.empty()) pieces.push_back(std::move(piece));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

bool TakePrefix(std::string_view prefix, std::string_view& text) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

StatusOr<CacheChoice> ParseCacheChoice(std::string_view text) {
  CacheChoice choice;
  choice.name = Trim(text);
  std::string_view rest = choice.name;
  const bool says_stock = TakePrefix("stock:", rest);
  const bool says_swivel = !says_stock && TakePrefix("swivel:", rest);
  if (!says_swivel) {
    for (const StockType& stock : kStockTypes) {
      if (rest != stock.name || (stock.needs_prefix && !says_stock)) continue;
      choice.stock = true;
      choice.ggml_type = stock.type;
      return choice;
    }
  }
  if (says_stock) {
    std::string names;
    for (const StockType& stock : kStockTypes) names += fmt::format("{}{}", names.empty() ? "" : ", ", stock.name);
    return Status::Invalid(fmt::format("'{}' is not a cache type of llama.cpp; 'stock:' takes {}", rest, names));
  }
  StatusOr<CacheSpec> spec = ParseSpec(rest);
  if (!spec.ok()) return spec.status();
  choice.spec = spec->ToString();
  return choice;
}

std::vector<std::string> SplitCacheList(std::string_view text) {
  std::vector<std::string> specs;
  // With a semicolon keys belong to the spec they stand in: "balanced,k=tcq4" could not be named otherwise.
  const bool parted = text.find(';') != std::string_view::npos;
  for (const std::string& list : TrimmedPieces(text, ';')) {
    std::set<std::string> keys;  // of the spec being collected, specs.back()
    bool open = false;           // a comma may still add to it
    for (const std::string& piece : TrimmedPieces(list, ',')) {
      // "swivel:k=turbo4" has the key k; "boundary=2:q8_0" keeps its colon, which lies behind the "=".
      const size_t equals = piece.find('=');
      const size_t colon = piece.find(':');
      const size_t key_begin = colon < equals ? colon + 1 : 0;
      const bool has_key = equals != std::string::npos;
      const std::string key = has_key ? Trim(piece.substr(key_begin, equals - key_begin)) : "";
      if (open && has_key && key_begin == 0 && (parted || key == "layer" || !keys.contains(key))) {
        specs.back() += "," + piece;
      } else {
        specs.push_back(piece);
        keys.clear();
      }
      open = true;
      if (has_key) {
        keys.insert(key);
      } else {
        keys.insert({"k", "v"});
      }
    }
  }
  return specs;
}

StatusOr<std::vector<CacheChoice>> ParseCacheList(std::string_view text) {
  std::vector<CacheChoice> choices;
  for (const std::string& piece : SplitCacheList(text)) {
    StatusOr<CacheChoice> choice = ParseCacheChoice(piece);
    if (!choice.ok()) return choice.status();
    const bool known = std::any_of(choices.begin(), choices.end(), [&](const CacheChoice& other) {
      return other.stock == choice->stock && other.ggml_type == choice->ggml_type && other.spec == choice->spec;
    });
    if (!known) choices.push_back(std::move(*choice));
  }
  return choices;
}

StatusOr<std::vector<CacheChoice>> ParseStockList(std::string_view text) {
  if (text == "none") return std::vector<CacheChoice>();
  StatusOr<std::vector<CacheChoice>> stock = ParseCacheList(text);
  if (stock.ok() && std::all_of(stock->begin(), stock->end(), [](const CacheChoice& cache) { return cache.stock; })) return stock;
  return Status::Invalid(fmt::format("--stock {}: f16, q8_0, q4_0, stock:TYPE for llama.cpp's other cache types, or none", text));
}

}  // namespace swivel
