// A small table for people (aligned Markdown) and for spreadsheets (CSV).
#ifndef SWIVEL_CLI_SIZE_TABLE_H_
#define SWIVEL_CLI_SIZE_TABLE_H_

#include <string>
#include <vector>

namespace swivel::cli {

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  // each as long as the header
  size_t text_columns = 1;                     // the first ones are aligned left, the others are numbers

  std::string Markdown() const;
  std::string Csv() const;  // RFC 4180, lines end in \n
};

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_SIZE_TABLE_H_
