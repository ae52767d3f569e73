// A cache specification as a file that a person can read and a comment can explain (TOML):
//
//   preset = "balanced"           # optional; what follows changes it
//   k = "tcq3"                    # every key of the grammar (cache/spec.h), with a string, a number, or true and false for on and off
//   group_mean = true
//   calibration = "m.swivel"      # relative to this file
//   [[layer]]                     # any number of them
//   range = "0-1"                 # or one number
//   heads = "0-1"                 # only these KV heads; without: all
//   codec = "q8_0"                # or k = and v =, one or both
//   [expected]                    # what was measured when the file was written: for people, any keys, not used
//   kld = 0.03
//
// `swivel tune` writes such files. Wherever a spec is taken, a bare item that ends in .toml is one.
#ifndef SWIVEL_CACHE_SPEC_FILE_H_
#define SWIVEL_CACHE_SPEC_FILE_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "cache/spec.h"

namespace swivel {

// Ends in ".toml" and is more than that.
bool IsSpecFile(std::string_view item);

// Errors: kNotFound, kIo; kInvalidArgument with file, line, key and what is accepted.
StatusOr<CacheSpec> ReadSpecFile(const std::string& path);

// The same of the text of a file. `path` is for messages and for paths in the text, which are relative to its folder. Throws nothing.
StatusOr<CacheSpec> ParseSpecFile(std::string_view text, const std::string& path);

}  // namespace swivel

#endif  // SWIVEL_CACHE_SPEC_FILE_H_
