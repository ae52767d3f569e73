// NumPy's .npy files: how vectors come into `swivel distortion` and leave `swivel capture`.
//
// Goals: matrices of float16, float32 or float64, row by row, little-endian, all versions of the format (numpy.lib.format). Hostile files
// give an error, not a crash or a large allocation. Non-goals: other types, Fortran order, archives (.npz).
#ifndef SWIVEL_EVAL_NPY_H_
#define SWIVEL_EVAL_NPY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace swivel {

// Where the values of a file are and what they are like.
struct NpyLayout {
  size_t value_bytes = 0;  // 2, 4 or 8
  size_t rows = 0, columns = 0;
  size_t begin = 0;  // of the values in the file
};
inline constexpr size_t kMostNpyHeaderBytes = 10000;  // numpy itself refuses longer ones by default: a header is a short dictionary

// `start` holds the first bytes of a file of `file_bytes`: all of it, or at least 12 + kMostNpyHeaderBytes. Errors as of ReadNpy; their
// messages begin with a verb, for the name of the file to be put before it. rows * columns * value_bytes is what follows the header, and
// not 0.
StatusOr<NpyLayout> ParseNpyHeader(std::string_view start, uint64_t file_bytes);

struct NpyMatrix {
  size_t file_rows = 0;          // what the file holds
  size_t rows = 0, columns = 0;  // what is in `values`
  std::vector<float> values;     // a float64 beyond the range of a float is infinite
};

// The first `most_rows` rows. Errors name the file: kNotFound, kIo, kInvalidArgument (not .npy, damaged, shorter or longer than its header
// says), kUnsupported (another type, order or number of dimensions).
StatusOr<NpyMatrix> ReadNpy(const std::string& path, size_t most_rows);

// The bytes of a float32 file; `values` holds rows * columns.
std::string NpyBytes(std::span<const float> values, size_t rows, size_t columns);

}  // namespace swivel

#endif  // SWIVEL_EVAL_NPY_H_
