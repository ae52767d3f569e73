// The same model with its weights expanded to F32, kept in the cache folder.
//
// With quantized weights llama.cpp rounds activations to 8 bits before each matrix product, and last-bit differences of an attention
// kernel flip those roundings: two correct kernels are then about 0.004 nats apart, several times as far as with F32 weights. F32 weights
// remove that noise, not the error of the weights themselves.
#ifndef SWIVEL_LLAMA_F32_WEIGHTS_H_
#define SWIVEL_LLAMA_F32_WEIGHTS_H_

#include <string>

#include "base/status.h"

namespace swivel {

// The path of the expanded file of `model_path`, made if need be, or `model_path` itself when it holds no quantized tensor. The
// result lies in ${SWIVEL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/swivel}/f32, named after the file's name and a hash of name, size
// and time of change. Written to a temporary name and renamed, so that a half-written file is never used. kIo when there is no room.
StatusOr<std::string> ExpandToF32(const std::string& model_path, int threads);

}  // namespace swivel

#endif  // SWIVEL_LLAMA_F32_WEIGHTS_H_
