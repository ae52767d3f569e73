// The same model with its weights expanded to F16 or F32, kept in the cache folder.
//
// With quantized weights llama.cpp rounds activations to 8 bits before each matrix product, and last-bit differences of an attention
// kernel flip those roundings: two correct kernels are then about 0.004 nats apart. With F16 weights activations are rounded to F16, which
// leaves a few 1e-6 nats; with F32 weights they are not rounded. Neither takes away the error that quantization has left in the weights.
#ifndef SWIVEL_LLAMA_WIDE_WEIGHTS_H_
#define SWIVEL_LLAMA_WIDE_WEIGHTS_H_

#include <string>

#include "base/status.h"

namespace swivel {

// `weights` is "as-is", "f16" or "f32". The path of the expanded file of `model_path`, made if need be, or `model_path` itself when it holds
// no matrix that is to be expanded: for f32 all that are not F32, for f16 those that are quantized. The result lies in
// ${SWIVEL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/swivel}/f16 or /f32, named after the file's name and a hash of name, size and time of
// change. Written to a temporary name and renamed, so that a half-written file is never used. kIo when there is no room.
StatusOr<std::string> WidenWeights(const std::string& model_path, const std::string& weights, int threads);

// What the --weights of commands takes, for its help.
inline constexpr const char* kWeightsHelp =
    "as-is, or f16 or f32: expand quantized weights first, which takes away (f16: nearly) the rounding of activations";

}  // namespace swivel

#endif  // SWIVEL_LLAMA_WIDE_WEIGHTS_H_
