// Which program a command starts, and which of its options matter to a cache.
#ifndef SWIVEL_CLI_EXEC_PROGRAMS_H_
#define SWIVEL_CLI_EXEC_PROGRAMS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace swivel::cli {

enum class ProgramKind {
  kCommon,     // llama.cpp's common options: llama-server, llama-cli, llama-perplexity, …
  kBench,      // llama-bench: options of its own, lists of values
  kRpcServer,  // takes no cache options; the client's decide
  kOther,      // Python scripts, other people's programs: gets the environment only
};

struct ProgramPlace {
  ProgramKind kind = ProgramKind::kOther;
  size_t program = 0;       // index of the program that kind speaks of; above 0 behind `nice`, `numactl`, `env`, …
  size_t first_option = 1;  // where its options begin: one later for `llama serve …`
};

// Reads the names in `command` (PROGRAM ARGS…), never the file system.
ProgramPlace Locate(const std::vector<std::string>& command);

// The types that llama.cpp itself accepts for a cache (f32 in the common programs only).
const std::vector<std::string>& StockCacheTypes();

// Takes every occurrence of an option out of `args`, from index `begin` on, and appends its values to *values: `--name value` and
// `--name=value`; llama.cpp reads '_' as '-' in long names. False when the last one lacks its value.
bool TakeOption(const std::vector<std::string>& names, size_t begin, std::vector<std::string>* args, std::vector<std::string>* values);

// The values of an option that is left in place.
std::vector<std::string> ValuesOf(const std::vector<std::string>& names, size_t begin, const std::vector<std::string>& args);
// Whether a flag without value is there.
bool HasFlag(const std::vector<std::string>& names, size_t begin, const std::vector<std::string>& args);

// What llama.cpp reads as "off".
bool IsOff(const std::string& value);

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_EXEC_PROGRAMS_H_
