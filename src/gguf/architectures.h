// What llama.cpp (b11434) knows about an architecture without reading it from the file. Private to src/gguf.
#ifndef SWIVEL_GGUF_ARCHITECTURES_H_
#define SWIVEL_GGUF_ARCHITECTURES_H_

#include <string_view>

namespace swivel::gguf {

enum class CacheKind {
  kPlain,        // a KV row in every layer that has KV heads
  kInterval,     // plain, but most layers are recurrent: one in `full_attention_interval` has a cache
  kNone,         // an encoder or a diffusion model: llama.cpp makes no cache
  kRecurrent,    // a state of fixed size instead of a cache
  kUndescribed,  // a cache of several parts that this file does not describe
};
CacheKind KindOf(std::string_view architecture);

// True where llama.cpp adds a second cache for the index of sparse attention (counted nowhere here).
bool HasIndexCache(std::string_view architecture);

// Sliding windows. llama.cpp honours `attention.sliding_window` for the architectures listed only; for others (phi3, qwen2, …) the
// key is ignored and every layer sees everything.
struct WindowRule {
  const char* architecture;
  int default_window;  // used when the key is absent; 0: then there is no window
  bool fixed;          // the key's value is ignored (only 0 means none)
  int period;          // without a pattern in the file: of `period` layers one is full; 0: all layers have the window
  bool dense_first;    // the full one is the first of the period, not the last
};
const WindowRule* WindowRuleOf(std::string_view architecture);

}  // namespace swivel::gguf

#endif  // SWIVEL_GGUF_ARCHITECTURES_H_
