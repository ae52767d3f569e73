#include "eval/text_table.h"

#include <algorithm>

namespace swivel {
namespace {

// Columns on a screen, of text whose multi-byte characters are one column wide.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

std::string TextTable(const std::vector<TextRow>& rows) {
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const TextRow& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], Width(row[c]));
  }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < widths.size(); ++c) {
      const std::string padding(widths[c] - Width(rows[r][c]), ' ');
      text += c == 0 ? fmt::format("|{}{}", rows[r][c], padding) : fmt::format("| {}{}", padding, rows[r][c]);
    }
    text += "|\n";
    if (r > 0) continue;
    for (size_t c = 0; c < widths.size(); ++c) text += fmt::format("|{:-<{}}{}", "", widths[c], c == 0 ? "" : ":");
    text += "|\n";
  }
  return text;
}

std::string NumberText(double value, const char* format) {
  if (std::isnan(value)) return "NaN";
  return fmt::format(fmt::runtime(format), value);
}

std::string KldText(const std::optional<double>& value) {
  if (!value) return "-";
  std::string text = NumberText(*value, "{:.3g}");
  const size_t exponent = text.find("e-0");
  if (exponent != std::string::npos) text.erase(exponent + 2, 1);
  return text;
}

std::string KldWithErrorText(const Summary& kld) {
  std::string text = KldText(kld.mean);
  if (kld.mean && kld.mean_err && *kld.mean > 0) text += fmt::format(" ±{:.0f}%", 100 * *kld.mean_err / *kld.mean);
  return text;
}

std::string PercentText(const std::optional<MeanError>& share, const char* format) {
  if (!share) return "-";
  std::string text = NumberText(100 * share->mean, format);
  if (share->error) text += " ±" + NumberText(100 * *share->error, format);
  return text;
}

std::string DifferenceText(const MeanError& difference) {
  std::string text = NumberText(difference.mean, "{:+.3f}");
  if (difference.error) text += " ±" + NumberText(*difference.error, "{:.3f}");
  return text;
}

}  // namespace swivel
