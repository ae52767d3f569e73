#include "eval/command_line.h"

#include <string_view>

#include "eval/output_file.h"

namespace swivel {

std::string ShellQuote(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string OwnCommandLine() {
  const StatusOr<std::string> text = ReadFile("/proc/self/cmdline");
  if (!text.ok()) return {};
  std::string line, word;
  for (const char c : text.value()) {
    if (c != '\0') {
      word += c;
      continue;
    }
    line += (line.empty() ? "" : " ") + ShellQuote(word);
    word.clear();
  }
  return line;
}

}  // namespace swivel
