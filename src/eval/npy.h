// NumPy's .npy files: how vectors come into `swivel distortion` and leave `swivel capture`.
//
// Goals: matrices of float16, float32 or float64, row by row, little-endian, all versions of the format (numpy.lib.format). Hostile files
// give an error, not a crash or a large allocation. Non-goals: other types, Fortran order, archives (.npz).
#ifndef SWIVEL_EVAL_NPY_H_
#define SWIVEL_EVAL_NPY_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace swivel {

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
