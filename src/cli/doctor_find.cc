#include "cli/doctor_find.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "cli/doctor_elf.h"
#include "cli/doctor_process.h"
#include "cli/paths.h"

namespace swivel::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kTraceSeconds = 10;
// A Python environment has a few thousand libraries; a whole disk is not searched.
constexpr int kMaxDepth = 2;  // what a package or an install prefix needs; deeper would run programs that nobody meant
constexpr int kMaxFiles = 20000;

// The function that loads a backend, one of the base library, and one that every Python extension wants.
constexpr const char* kRegistrySymbol = "ggml_backend_load";
const std::vector<std::string> kSymbols = {kRegistrySymbol, "ggml_nbytes", "PyModule_Create2", "PyModuleDef_Init", "PyErr_SetString"};

// Programs that answer --list-devices, the likeliest first.
constexpr const char* kPrograms[] = {"llama-server",     "llama-cli",        "llama-bench",
                                     "llama-completion", "llama-perplexity", "llama-batched-bench"};

bool IsLibraryName(const std::string& name) { return name.find(".so") != std::string::npos; }

bool WantsPython(const ElfFile& elf) {
  return std::any_of(elf.wants.begin(), elf.wants.end(), [](const std::string& symbol) { return symbol.starts_with("Py"); });
}

std::string Canonical(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? path : real.string();
}

std::vector<std::string> SiblingsOf(const std::string& registry) {
  std::vector<std::string> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(FolderOf(registry), error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("libggml") && IsLibraryName(name) && entry.is_regular_file(error)) found.push_back(entry.path().string());
  }
  // The base library first: the others want it.
  std::sort(found.begin(), found.end(), [](const std::string& a, const std::string& b) {
    const bool a_base = a.find("libggml-base") != std::string::npos, b_base = b.find("libggml-base") != std::string::npos;
    return a_base != b_base ? a_base : a < b;
  });
  found.erase(std::remove(found.begin(), found.end(), registry), found.end());
  return found;
}

std::optional<GgmlPlace> PlaceIfRegistry(const std::string& path) {
  const StatusOr<ElfFile> elf = ReadElf(path, kSymbols);
  if (!elf.ok() || elf.value().IsProgram() || !elf.value().Defines(kRegistrySymbol)) return std::nullopt;
  GgmlPlace place;
  place.registry = Canonical(path);
  place.python = WantsPython(elf.value());
  place.siblings = SiblingsOf(place.registry);
  return place;
}

// Everything that the dynamic loader would load for a file, as it prints it; nothing of the file is run.
std::vector<std::string> LoadedLibraries(const std::string& path, std::vector<std::string>* notes) {
  const StatusOr<ElfFile> self = ReadElf("/proc/self/exe", {});
  if (!self.ok() || self.value().interpreter.empty()) return {};
  const ChildResult trace = RunProgram({self.value().interpreter, path}, {{{"LD_TRACE_LOADED_OBJECTS", "1"}}, {}}, kTraceSeconds);
  std::vector<std::string> libraries;
  for (const std::string& line : LastLines(trace.out + trace.err, 1000)) {
    const size_t arrow = line.find(" => ");
    if (line.find("not found") != std::string::npos) {
      const size_t text = line.find_first_not_of(" \t");
      notes->push_back(line.substr(text == std::string::npos ? 0 : text));
    } else if (arrow != std::string::npos) {
      libraries.push_back(line.substr(arrow + 4, line.find(" (", arrow) - arrow - 4));
    }
  }
  return libraries;
}

// The registry among the libraries that a file loads, or else among the libggml* files beside it.
std::optional<GgmlPlace> RegistryFor(const std::string& path, std::vector<std::string>* notes) {
  std::vector<std::string> candidates = LoadedLibraries(path, notes);
  const std::vector<std::string> beside = SiblingsOf(Canonical(path));
  candidates.insert(candidates.end(), beside.begin(), beside.end());
  for (const std::string& candidate : candidates) {
    if (std::optional<GgmlPlace> place = PlaceIfRegistry(candidate)) return place;
  }
  return std::nullopt;
}

Status DescribeProgram(const ElfFile& elf, Host* host) {
  host->program = host->path;
  host->what = "program";
  if (elf.IsStaticProgram()) {
    host->what = "static program";
    host->notes.push_back("statically linked: it exports nothing, so no plugin can reach its ggml");
    return {};
  }
  host->ggml = RegistryFor(host->path, &host->notes);
  if (host->ggml) return {};
  if (elf.Defines(kRegistrySymbol)) {
    host->notes.push_back("ggml is linked into the program and exported");
  } else {
    host->notes.push_back(
        "it loads no libggml and exports none: ggml is linked in where a plugin cannot reach it, or this is not a llama.cpp program");
  }
  return {};
}

Status DescribeFolder(Host* host) {
  host->what = "folder";
  std::optional<GgmlPlace> extension;
  int files = 0;
  std::error_code error;
  fs::recursive_directory_iterator entry(host->path, fs::directory_options::skip_permission_denied, error), end;
  for (; !error && entry != end && files < kMaxFiles; entry.increment(error), ++files) {
    if (entry.depth() >= kMaxDepth) entry.disable_recursion_pending();
    if (!entry->is_regular_file(error)) continue;
    const std::string path = entry->path().string(), name = entry->path().filename().string();
    if (access(path.c_str(), X_OK) == 0) {
      const auto rank = [](const std::string& file) { return std::find(std::begin(kPrograms), std::end(kPrograms), BaseName(file)); };
      if (rank(path) < rank(host->program)) host->program = path;
    }
    if (!IsLibraryName(name) || (host->ggml && !host->ggml->python)) continue;
    if (std::optional<GgmlPlace> place = PlaceIfRegistry(path)) (place->python ? extension : host->ggml) = place;
  }
  // A folder may hold several hosts: the program's own ggml is the one that belongs to it.
  if (!host->program.empty()) {
    if (std::optional<GgmlPlace> own = RegistryFor(host->program, &host->notes)) host->ggml = own;
  }
  if (!host->ggml) host->ggml = extension;
  if (files >= kMaxFiles) host->notes.push_back("the search ended after " + std::to_string(kMaxFiles) + " files; name a smaller folder");
  if (host->ggml || !host->program.empty()) return {};
  return Status::Invalid(host->path + ": neither a library that defines " + kRegistrySymbol + " nor a llama.cpp program is in this folder");
}

}  // namespace

StatusOr<Host> FindHost(const std::string& name) {
  Host host;
  std::error_code error;
  host.path = name;
  if (!fs::exists(name, error)) {
    const StatusOr<std::string> program = FindProgram(name);
    if (!program.ok()) return Status::NotFound(name + ": neither a file or folder nor a program in PATH");
    host.path = program.value();
  } else if (name.find('/') == std::string::npos) {
    host.path = "./" + name;
  }
  if (fs::is_directory(host.path, error)) {
    const Status status = DescribeFolder(&host);
    if (!status.ok()) return status;
    return host;
  }
  const StatusOr<ElfFile> elf = ReadElf(host.path, kSymbols);
  if (!elf.ok()) {
    std::string line;
    std::ifstream file(host.path);
    const bool script = std::getline(file, line) && line.starts_with("#!") && access(host.path.c_str(), X_OK) == 0;
    if (!script) return Status::Invalid(host.path + ": neither a program, a script nor a shared library");
    host.what = "script";
    host.program = host.path;
    return host;
  }
  if (!elf.value().native) return Status::Invalid(host.path + ": built for another kind of processor");
  if (elf.value().IsProgram()) {
    const Status status = DescribeProgram(elf.value(), &host);
    if (!status.ok()) return status;
    return host;
  }
  host.what = "shared library";
  host.ggml = PlaceIfRegistry(host.path);
  if (!host.ggml) host.ggml = RegistryFor(host.path, &host.notes);
  if (host.ggml && host.ggml->python) host.what = "Python extension";
  if (!host.ggml)
    return Status::Invalid(host.path + ": no library that defines " + kRegistrySymbol + " in it, among its dependencies or beside it");
  return host;
}

}  // namespace swivel::cli
