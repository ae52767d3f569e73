// What a model's cache looks like: for every layer the rows that K and V take, read from the keys of a GGUF header.
//
// Goals: the same tensors that llama.cpp allocates (llama_kv_cache, llama_kv_cache_iswa and the hybrid caches of b11434), so that
// sizes agree with its log to the byte. Non-goals: recurrent state, the index caches of sparse attention (said in `notes`), encoders.
#ifndef SWIVEL_GGUF_SHAPE_H_
#define SWIVEL_GGUF_SHAPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "gguf/header.h"

namespace swivel::gguf {

// One layer that owns rows in the cache.
struct CachedLayer {
  int layer = 0;  // number of the block in the model
  int heads_q = 0;
  int heads_kv = 0;
  int k_width = 0;  // of one head's row
  int v_width = 0;  // 0: V is not stored (MLA: it is the beginning of K)
  int window = 0;   // sliding window in tokens; 0: the layer sees everything
};

struct ModelShape {
  std::string architecture;
  std::string name;  // general.name; may be empty
  int64_t file_type = -1;
  int64_t context = 0;  // trained; 0: not stated
  int64_t embedding = 0;
  int blocks = 0;  // all layers, with or without a cache
  std::vector<CachedLayer> layers;
  bool mla = false;
  int64_t kv_lora_rank = 0;
  std::vector<std::string> notes;  // sentences: what is assumed, what is not counted
};

// Errors: kInvalidArgument (a key that is needed is missing or absurd; it is named), kUnsupported (the model has no KV cache, or one
// of a kind that is not described here; the message says which).
StatusOr<ModelShape> ReadShape(const Header& header);

// Names of the tensors that add a bias to K (blk.<n>.attn_k.bias, or the fused attn_qkv.bias), in file order.
std::vector<std::string> KeyBiasTensors(const Header& header);

}  // namespace swivel::gguf

#endif  // SWIVEL_GGUF_SHAPE_H_
