#include "cli/lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace swivel::cli {

std::vector<std::string> SplitList(const std::string& text, char separator) {
  std::vector<std::string> pieces;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    pieces.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return pieces;
}

StatusOr<std::vector<int>> Integers(const std::string& option, const std::string& text, char separator, int least, int most) {
  std::vector<int> values;
  for (const std::string& piece : SplitList(text, separator)) {
    int value = 0;
    const char* end = piece.data() + piece.size();
    const auto [stop, error] = std::from_chars(piece.data(), end, value);
    if (error != std::errc() || stop != end || value < least || value > most) {
      return Status::Invalid(fmt::format("{} {}: '{}' is not a whole number from {} to {}; several are separated by '{}'", option, text,
                                         piece, least, most, separator));
    }
    values.push_back(value);
  }
  return values;
}

}  // namespace swivel::cli
