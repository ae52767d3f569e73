#include "cli/exec_programs.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "cli/paths.h"

namespace swivel::cli {
namespace {

// Programs of llama.cpp without the common options: those that take no cache type, and small examples.
constexpr std::string_view kPlainPrograms[] = {"llama-simple",     "llama-simple-chat", "llama-quantize", "llama-gguf",
                                               "llama-gguf-split", "llama-gguf-hash",   "llama-tokenize"};
// Programs that start another one named in their arguments.
constexpr std::string_view kStarters[] = {"env",   "nice",   "ionice", "chrt",   "taskset", "numactl", "time",     "timeout", "stdbuf",
                                          "nohup", "setsid", "strace", "ltrace", "gdb",     "perf",    "valgrind", "sudo"};

bool Contains(const auto& list, std::string_view name) { return std::find(std::begin(list), std::end(list), name) != std::end(list); }

// Nothing for names that are not llama.cpp's.
std::optional<ProgramKind> KindByName(const std::string& name) {
  if (name == "llama-bench") return ProgramKind::kBench;
  if (name == "rpc-server" || name == "ggml-rpc-server" || name == "llama-rpc-server") return ProgramKind::kRpcServer;
  if (Contains(kPlainPrograms, name)) return ProgramKind::kOther;
  if (name.starts_with("llama-")) return ProgramKind::kCommon;
  return std::nullopt;
}

std::string LongNameWithDashes(const std::string& argument) {
  if (!argument.starts_with("--")) return argument;
  std::string name = argument.substr(0, argument.find('='));
  std::replace(name.begin(), name.end(), '_', '-');
  return name + (name.size() < argument.size() ? argument.substr(name.size()) : "");
}

// Does args[i] name the option? With `=`, *inline_value is set.
bool Matches(const std::string& argument, const std::vector<std::string>& names, std::optional<std::string>* inline_value) {
  const std::string normal = LongNameWithDashes(argument);
  for (const std::string& name : names) {
    if (normal == name) return true;
    if (name.starts_with("--") && normal.starts_with(name + "=")) {
      *inline_value = normal.substr(name.size() + 1);
      return true;
    }
  }
  return false;
}

}  // namespace

ProgramPlace Locate(const std::vector<std::string>& command) {
  ProgramPlace place;
  if (command.empty()) return place;
  size_t at = 0;
  if (Contains(kStarters, BaseName(command[0]))) {
    for (size_t i = 1; i < command.size(); ++i) {
      const std::string name = BaseName(command[i]);
      if (KindByName(name) || name == "llama") {
        at = i;
        break;
      }
    }
  }
  const std::string name = BaseName(command[at]);
  place.program = at;
  place.first_option = at + 1;
  if (const std::optional<ProgramKind> kind = KindByName(name)) {
    place.kind = *kind;
  } else if (name == "llama" && at + 1 < command.size()) {
    // The one-program build: `llama serve …`, `llama bench …`.
    const std::string& sub = command[at + 1];
    place.first_option = at + 2;
    place.kind = sub == "bench" ? ProgramKind::kBench : sub == "quantize" ? ProgramKind::kOther : ProgramKind::kCommon;
  } else if (!name.starts_with("python") && !Contains(kStarters, name)) {
    // A renamed llama-server gives itself away by its options.
    const std::vector<std::string> names = {"-ctk", "--cache-type-k", "-ctv", "--cache-type-v"};
    std::optional<std::string> unused;
    for (size_t i = at + 1; i < command.size(); ++i) {
      if (Matches(command[i], names, &unused)) place.kind = ProgramKind::kCommon;
    }
  }
  return place;
}

const std::vector<std::string>& StockCacheTypes() {
  static const std::vector<std::string> types = {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"};
  return types;
}

bool TakeOption(const std::vector<std::string>& names, size_t begin, std::vector<std::string>* args, std::vector<std::string>* values) {
  for (size_t i = begin; i < args->size();) {
    std::optional<std::string> value;
    if (!Matches((*args)[i], names, &value)) {
      ++i;
      continue;
    }
    const size_t words = value ? 1 : 2;
    if (i + words > args->size()) return false;
    values->push_back(value ? *value : (*args)[i + 1]);
    args->erase(args->begin() + static_cast<ptrdiff_t>(i), args->begin() + static_cast<ptrdiff_t>(i + words));
  }
  return true;
}

std::vector<std::string> ValuesOf(const std::vector<std::string>& names, size_t begin, const std::vector<std::string>& args) {
  std::vector<std::string> copy = args, values;
  TakeOption(names, begin, &copy, &values);
  return values;
}

bool HasFlag(const std::vector<std::string>& names, size_t begin, const std::vector<std::string>& args) {
  std::optional<std::string> unused;
  for (size_t i = begin; i < args.size(); ++i) {
    if (Matches(args[i], names, &unused)) return true;
  }
  return false;
}

bool IsOff(const std::string& value) { return value == "off" || value == "disabled" || value == "false" || value == "0"; }

}  // namespace swivel::cli
