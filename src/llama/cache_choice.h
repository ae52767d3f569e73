// A cache by name: llama.cpp's own ("stock") or one of Swivel's, and lists of them.
//
//   name = "f16" | "q8_0" | "q4_0"      stock llama.cpp, flash attention on, q* rotated by llama.cpp as it does by default
//        | "stock:" type                any other cache type of llama.cpp: bf16, q5_0, q5_1, q4_1, iq4_nl, f32
//        | "swivel:" spec               a Swivel spec whose name is also a stock one: swivel:f16, swivel:q8_0
//        | spec                         any other Swivel spec (cache/spec.h): turbo4, k=turbo4,v=turbo3
//   list = name { (";" | ",") name }
// Specs hold commas themselves. In a list ";" always separates; "," separates before a piece without "=" and before a key that the
// spec so far already has, where a bare codec name counts as k= and v=; but layer= may be there several times. So `turbo4,k=turbo4,v=turbo3` are two and
// `turbo4,boundary=2:q8_0` is one.
#ifndef SWIVEL_LLAMA_CACHE_CHOICE_H_
#define SWIVEL_LLAMA_CACHE_CHOICE_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace swivel {

struct CacheChoice {
  std::string name;    // as the user wrote it, blanks removed; what tables show
  bool stock = false;  // llama.cpp's own cache, without the plugin
  int ggml_type = -1;  // of a stock cache: enum ggml_type
  std::string spec;    // of a Swivel cache: what the plugin is given
};

// Checks names, types and specs without loading anything. kInvalidArgument says what is accepted.
StatusOr<CacheChoice> ParseCacheChoice(std::string_view text);

// An empty list is fine and gives no caches; names given twice are kept once.
StatusOr<std::vector<CacheChoice>> ParseCacheList(std::string_view text);

// Of llama.cpp's own caches only; "none" is the empty list. The value of --stock.
StatusOr<std::vector<CacheChoice>> ParseStockList(std::string_view text);

// Where a list is cut; exposed for tests. Pieces are trimmed and never empty.
std::vector<std::string> SplitCacheList(std::string_view text);

}  // namespace swivel

#endif  // SWIVEL_LLAMA_CACHE_CHOICE_H_
