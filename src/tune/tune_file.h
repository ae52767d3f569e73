// The file that `swivel tune` writes: a spec in TOML (cache/spec_file.h) with what each line means, and what was measured.
#ifndef SWIVEL_TUNE_TUNE_FILE_H_
#define SWIVEL_TUNE_TUNE_FILE_H_

#include <string>
#include <utility>
#include <vector>

#include "cache/spec.h"

namespace swivel {

// A TOML string, quotes included.
std::string TomlString(const std::string& text);

// `head`: lines of the comment at the top, without "#". `expected`: keys and TOML values of that table, in order. Reading the text gives
// `spec` again; a calibration path must be absolute or relative to where the file will be.
std::string TuneFileText(const CacheSpec& spec, const std::vector<std::string>& head, const std::vector<std::pair<std::string, std::string>>& expected);

}  // namespace swivel

#endif  // SWIVEL_TUNE_TUNE_FILE_H_
