#include "tune/tune_file.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

namespace swivel {
namespace {

// What a key means, in a few words; one that is missing here has no comment.
constexpr std::pair<const char*, const char*> kComments[] = {
    {"k", "codec of keys"},
    {"v", "codec of values"},
    {"boundary", "the first and last layers"},
    {"transform", "basis of keys: full a matrix a head, eq equalised channels, wht none of the model"},
    {"mean", "subtract the calibrated mean of keys"},
    {"group_mean", "subtract the mean of each 128 keys"},
    {"halves", "two halves of a key with bits of their own"},
    {"sinks", "first tokens that stay exact"},
    {"window", "last tokens that stay exact, at least"},
    {"decay", "groups that so many tokens were written after are packed again with fewer bits"},
    {"budget", "bytes of the whole cache; old groups decay as far as it asks"},
    {"calibration", "self: from the first tokens of a context; else a file of swivel calibrate"},
    {"shrink", "factor on off-diagonal moments"},
    {"sparse_v", "share of the weights whose values attention may leave out"},
};

std::string Comment(std::string_view key) {
  for (const auto& [name, comment] : kComments) {
    if (key == name) return comment;
  }
  return {};
}

bool IsNumber(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  // TOML wants digits on both sides of a point.
  return error == std::errc() && end == text.data() + text.size() && text.find_first_not_of("0123456789.") == std::string::npos &&
         text.front() != '.' && text.back() != '.' && (text.size() == 1 || text[0] != '0' || text[1] == '.');
}

std::string Value(const std::string& text) {
  if (text == "on" || text == "off") return text == "on" ? "true" : "false";
  return IsNumber(text) ? text : TomlString(text);
}

}  // namespace

std::string TomlString(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += std::string("\\") + c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string TuneFileText(const CacheSpec& spec, const std::vector<std::string>& head,
                         const std::vector<std::pair<std::string, std::string>>& expected) {
  std::string text;
  for (const std::string& line : head) {
    text += line.empty() ? "#\n" : "# " + line + "\n";
  }
  std::vector<std::pair<std::string, std::string>> lines;  // "key = value", comment
  std::string tables;
  const std::string canonical = spec.ToString();
  for (size_t start = 0; start <= canonical.size();) {
    const size_t end = std::min(canonical.find(',', start), canonical.size());
    const std::string item = canonical.substr(start, end - start);
    start = end + 1;
    const size_t equals = item.find('=');
    const std::string key = item.substr(0, equals);
    const std::string value = item.substr(equals + 1);
    if (key == "layer") {
      const size_t colon = value.find(':');
      const size_t side = value.find('=', colon);
      const std::string codec = value.substr((side == std::string::npos ? colon : side) + 1);
      const std::string name = side == std::string::npos ? "codec" : value.substr(colon + 1, side - colon - 1);
      tables += "\n[[layer]]\nrange = " + TomlString(value.substr(0, colon)) + "\n" + name + " = " + TomlString(codec) + "\n";
    } else {
      lines.emplace_back(key + " = " + Value(value), Comment(key));
    }
  }
  if (spec.SelfCalibrated() && spec.self_tokens == 0) lines.emplace_back("calibration = \"self\"", Comment("calibration"));
  if (!text.empty()) text += "\n";
  size_t widest = 0;
  for (const auto& [line, comment] : lines) widest = std::max(widest, comment.empty() ? 0 : line.size());
  for (const auto& [line, comment] : lines) {
    text += comment.empty() ? line + "\n" : line + std::string(widest - std::min(widest, line.size()) + 2, ' ') + "# " + comment + "\n";
  }
  text += tables;
  if (!expected.empty()) {
    text += "\n# What was measured when this file was written. Swivel does not read it.\n[expected]\n";
    for (const auto& [key, value] : expected) text += key + " = " + value + "\n";
  }
  return text;
}

}  // namespace swivel
