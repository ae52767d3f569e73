// Running any operation on a packed cache: unpack, let the host compute, pack what changed.
//
// The operations that matter for speed are served from packed rows. Everything else that a host may do to a cache (the K-shift is a
// ROPE in place; other versions copy or transpose) sees an ordinary f16 tensor for the length of one node: slow, rare, right.
#ifndef SWIVEL_PLUGIN_SHADOW_H_
#define SWIVEL_PLUGIN_SHADOW_H_

#include <map>
#include <utility>
#include <vector>

#include "base/lazy_memory.h"
#include "base/status.h"
#include "ggml.h"
#include "plugin/kv_tensor.h"

namespace swivel::plugin {

class Shadow {
 public:
  // Points the node and its sources at f16 images of the KV tensors behind them. Errors: kOutOfMemory; nothing is changed then.
  Status Attach(ggml_tensor* node);
  // Puts the pointers back; when the node wrote to a KV tensor, stores the rows whose image changed.
  void Detach();

 private:
  Status Point(ggml_tensor* tensor);

  std::map<KvTensor*, LazyMemory> images_;
  std::vector<std::pair<ggml_tensor*, void*>> saved_;
  KvTensor* written_ = nullptr;
};

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_SHADOW_H_
