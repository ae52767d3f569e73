#include "llama/sampler.h"

#include "llama.h"

namespace swivel {

Sampler::Sampler(const SamplerOptions& options) : chain_(llama_sampler_chain_init(llama_sampler_chain_default_params())) {
  if (options.temperature <= 0) {
    llama_sampler_chain_add(chain_, llama_sampler_init_greedy());
    return;
  }
  if (options.top_k > 0) llama_sampler_chain_add(chain_, llama_sampler_init_top_k(options.top_k));
  llama_sampler_chain_add(chain_, llama_sampler_init_top_p(options.top_p, 1));
  llama_sampler_chain_add(chain_, llama_sampler_init_temp(options.temperature));
  llama_sampler_chain_add(chain_, llama_sampler_init_dist(options.seed));
}

Sampler::~Sampler() { llama_sampler_free(chain_); }

Token Sampler::Next(Context& context) { return llama_sampler_sample(chain_, context.get(), -1); }

}  // namespace swivel
