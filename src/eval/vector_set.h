// Vectors to measure codecs with: made up from a seed, or from a file.
#ifndef SWIVEL_EVAL_VECTOR_SET_H_
#define SWIVEL_EVAL_VECTOR_SET_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace swivel {

// What keys and values of models are like, each taken to an extreme (docs/evaluation.md):
//   gaussian  independent N(0, 1): what theory speaks of, and what a random rotation makes of most vectors
//   sparse    max(1, width / 32) random coordinates are N(0, 1), the others zero
//   heavy     independent Student t with 3 degrees of freedom
//   biased    N(0, 1) around one mean of norm 600 in four coordinates, as keys of models whose K has a bias
enum class SourceKind { kGaussian, kSparse, kHeavy, kBiased };
inline constexpr double kBiasNorm = 600;
inline constexpr int kBiasChannels = 4;

// kInvalidArgument for an unknown name; the message lists the names.
StatusOr<SourceKind> FindSource(std::string_view name);
const char* SourceName(SourceKind kind);

struct VectorSet {
  std::string source;  // the name, or the path of the file
  int width = 0;
  std::vector<float> values;  // rows one after another, all finite and none zero
  size_t file_rows = 0;       // rows of the file, 0 without one
  size_t zero_rows = 0;       // rows of the file that were left out: a relative error of nothing is undefined

  size_t rows() const { return width == 0 ? 0 : values.size() / static_cast<size_t>(width); }
  std::span<const float> row(size_t i) const { return {&values[i * static_cast<size_t>(width)], static_cast<size_t>(width)}; }
};

// The same vectors for the same arguments on every machine (up to the last bit of its sine and logarithm).
VectorSet MakeVectors(SourceKind kind, int width, size_t count, uint64_t seed);

// The first `most_rows` rows of a .npy file. Beside the errors of ReadNpy: kInvalidArgument for a row with a NaN or an infinity (named),
// for more than 65536 values a row, and for zeros only.
StatusOr<VectorSet> LoadVectors(const std::string& path, size_t most_rows);

}  // namespace swivel

#endif  // SWIVEL_EVAL_VECTOR_SET_H_
