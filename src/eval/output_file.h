// Files that are whole or absent: checked before long work, written beside their place and renamed.
#ifndef SWIVEL_EVAL_OUTPUT_FILE_H_
#define SWIVEL_EVAL_OUTPUT_FILE_H_

#include <string>
#include <string_view>

#include "base/status.h"

namespace swivel {

// kIo with the reason when WriteFile(path) could not work now. Leaves nothing behind.
Status CheckWritable(const std::string& path);

// Replaces the file by `content`. A path that exists and is not a regular file (/dev/stdout, a pipe) is written to as it is.
Status WriteFile(const std::string& path, std::string_view content);

// The whole file; kNotFound or kIo.
StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace swivel

#endif  // SWIVEL_EVAL_OUTPUT_FILE_H_
