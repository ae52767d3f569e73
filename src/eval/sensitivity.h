// Which layers a cache costs most in: the model with f16 everywhere but in the keys or the values of one layer, which are as `spec` says.
//
// Errors of layers do not add up exactly, but layers that stand out here are those that boundary= and layer= of a spec can protect.
#ifndef SWIVEL_EVAL_SENSITIVITY_H_
#define SWIVEL_EVAL_SENSITIVITY_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cache/spec.h"
#include "codec/codec.h"
#include "eval/quality.h"

namespace swivel {

struct LayerSensitivity {
  std::string kv;                           // the spec as it was asked for; empty: not measured
  std::vector<std::optional<double>> k, v;  // mean KLD in nats, one a layer that has a cache; absent where there was a NaN
  size_t positions = 0;                     // what each is a mean over
};

// Errors: kInvalidArgument for what ParseSpec refuses and for a spec with a budget or decay, which mean nothing in one layer.
StatusOr<CacheSpec> ParseSensitivitySpec(const std::string& kv);

// The spec with f16 in all layers but for one side of layer `ordinal`.
CacheSpec OnlyLayer(const CacheSpec& spec, Side side, int ordinal, int num_layers);

// Two contexts a layer, over the first chunk of `tokens`: as long as two candidates' chunks for each layer that has a cache. What `store` has
// is not measured again. Errors: those of ParseSensitivitySpec and of EvaluateQuality.
StatusOr<LayerSensitivity> EvaluateSensitivity(ModelPair& models, std::span<const Token> tokens, const std::string& kv,
                                               const QualityOptions& options, Store* store, Progress* progress);

}  // namespace swivel

#endif  // SWIVEL_EVAL_SENSITIVITY_H_
