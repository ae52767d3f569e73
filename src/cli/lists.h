// Values of options that are lists.
#ifndef SWIVEL_CLI_LISTS_H_
#define SWIVEL_CLI_LISTS_H_

#include <string>
#include <vector>

#include "base/status.h"

namespace swivel::cli {

// The pieces between separators, empty ones too.
std::vector<std::string> SplitList(const std::string& text, char separator = ',');

// Whole numbers; an error names the option, the piece and what is accepted.
StatusOr<std::vector<int>> Integers(const std::string& option, const std::string& text, char separator, int least, int most);

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_LISTS_H_
