// Saying no without killing the host.
//
// ggml has no way for a backend to decline a whole configuration: answering false in supports_op for an operation on a cache that is
// already allocated makes the host abort. What every host survives is an allocation that fails. So a refusal prints its reason, is
// remembered, and the next allocation of our buffer type on the same thread returns null: creating the context fails cleanly.
//
// State is per thread because a context is created on one thread: contexts of other threads are not hit.
#ifndef SWIVEL_PLUGIN_REFUSAL_H_
#define SWIVEL_PLUGIN_REFUSAL_H_

#include <string>

namespace swivel::plugin {

// A cache that is being sized (before its buffer is allocated), or a graph that is being planned (after).
enum class RefusedBy { kCacheTensor, kGraph };

// Prints `reason` once until an allocation has failed because of it.
void Refuse(RefusedBy by, const std::string& reason);

// A new cache is about to be allocated: what an earlier context's graph (such as one of the memory-fit step) refused is over.
void ForgetGraphRefusal();

// True once after a refusal: the caller must fail its allocation.
bool TakeRefusal();

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_REFUSAL_H_
