// What an executable or a library says about itself: enough of the ELF format to tell how a host is put together.
#ifndef SWIVEL_CLI_DOCTOR_ELF_H_
#define SWIVEL_CLI_DOCTOR_ELF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace swivel::cli {

struct ElfFile {
  bool native = false;      // 64-bit, little-endian, for this processor
  std::string interpreter;  // PT_INTERP: the dynamic loader; empty for libraries and static programs
  bool dynamic = false;     // has a dynamic section
  bool pie_flag = false;    // DF_1_PIE: a program, not a library
  std::vector<std::string> needed;
  // Of the symbols asked for: those it defines for others, and those it wants from others.
  std::vector<std::string> defines, wants;

  bool IsProgram() const { return !interpreter.empty() || pie_flag || !dynamic; }
  bool IsStaticProgram() const { return interpreter.empty() && (pie_flag || !dynamic); }
  bool Defines(const std::string& symbol) const;
};

// kInvalidArgument when the file is not ELF (or a damaged one), kIo when it cannot be read. Reads headers and symbol tables only; sizes
// in the file are not trusted.
StatusOr<ElfFile> ReadElf(const std::string& path, const std::vector<std::string>& symbols);

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_DOCTOR_ELF_H_
