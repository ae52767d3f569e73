#include "cli/size_table.h"

#include <algorithm>

namespace swivel::cli {
namespace {

// Columns on the screen of UTF-8 text: bytes that continue a character take none.
size_t DisplayWidth(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string Table::Markdown() const {
  std::vector<size_t> widths(header.size(), 3);
  for (size_t i = 0; i < header.size(); ++i) {
    widths[i] = std::max(widths[i], DisplayWidth(header[i]));
    for (const std::vector<std::string>& row : rows) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string padding(widths[i] - DisplayWidth(cells[i]), ' ');
      text += "| " + (i < text_columns ? cells[i] + padding : padding + cells[i]) + " ";
    }
    text += "|\n";
  };
  line(header);
  for (size_t i = 0; i < header.size(); ++i) {
    text += i < text_columns ? "|" + std::string(widths[i] + 2, '-') : "|" + std::string(widths[i] + 1, '-') + ":";
  }
  text += "|\n";
  for (const std::vector<std::string>& row : rows) line(row);
  return text;
}

std::string Table::Csv() const {
  std::string text;
  const auto line = [&text](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) text += (i == 0 ? "" : ",") + CsvField(cells[i]);
    text += "\n";
  };
  line(header);
  for (const std::vector<std::string>& row : rows) line(row);
  return text;
}

}  // namespace swivel::cli
