// Picks the next token from a context's logits.
#ifndef SWIVEL_LLAMA_SAMPLER_H_
#define SWIVEL_LLAMA_SAMPLER_H_

#include <cstdint>

#include "llama/context.h"

struct llama_sampler;

namespace swivel {

struct SamplerOptions {
  float temperature = 0;  // 0: the most likely token
  int top_k = 40;         // 0: no limit
  float top_p = 0.95f;
  uint32_t seed = 1;
};

class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // After a Decode() that asked for logits of its last token.
  Token Next(Context& context);

 private:
  llama_sampler* chain_;
};

}  // namespace swivel

#endif  // SWIVEL_LLAMA_SAMPLER_H_
