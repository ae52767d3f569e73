#include "cli/doctor_probe.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "cli/doctor_process.h"
#include "cli/exec_programs.h"
#include "cli/paths.h"

namespace swivel::cli {
namespace {

// What the child prints on stdout, `key=value` a line; the Python twin below prints the same.
void Say(const char* key, const char* value) { std::printf("%s=%s\n", key, value); }

template <class Function>
Function Find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

int AskGgml(void* library, const std::string& folder, const char* plugin) {
  const auto version = Find<const char* (*)()>(library, "ggml_version");
  const auto reg_count = Find<size_t (*)()>(library, "ggml_backend_reg_count");
  const auto reg_by_name = Find<void* (*)(const char*)>(library, "ggml_backend_reg_by_name");
  const auto load_folder = Find<void (*)(const char*)>(library, "ggml_backend_load_all_from_path");
  const auto load = Find<void* (*)(const char*)>(library, "ggml_backend_load");
  const auto dev_count = Find<size_t (*)()>(library, "ggml_backend_dev_count");
  const auto dev_get = Find<void* (*)(size_t)>(library, "ggml_backend_dev_get");
  const auto dev_name = Find<const char* (*)(void*)>(library, "ggml_backend_dev_name");
  if (!reg_count || !reg_by_name || !load || !dev_count || !dev_get || !dev_name) {
    Say("failure", "it lacks functions of ggml's backend registry (too old, or they are hidden)");
    return 0;
  }
  Say("version", version != nullptr ? version() : "older than 0.9.5");
  Say("linked", std::to_string(reg_count()).c_str());
  if (reg_by_name("CPU") == nullptr && load_folder != nullptr) load_folder(folder.c_str());
  // ggml_backend_reg begins with the API version that its host was built for.
  if (const void* cpu = reg_by_name("CPU")) Say("api", std::to_string(*static_cast<const int*>(cpu)).c_str());
  std::fflush(stdout);  // a crash below must not take this along
  Say("loaded", load(plugin) != nullptr ? "1" : "0");
  for (size_t i = 0; i < dev_count(); ++i) Say("device", dev_name(dev_get(i)));
  return 0;
}

// This process has a ggml of its own (and libraries are matched by name), so the host's goes into a new link-map namespace.
int LoadAndAsk(const GgmlPlace& place, const char* plugin) {
  void* registry = dlmopen(LM_ID_NEWLM, place.registry.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (registry == nullptr) {
    const std::string reason = dlerror();
    // Libraries without RUNPATH find each other only when they are already there (Python packages load them one by one).
    Lmid_t space = LM_ID_NEWLM;
    for (const std::string& path : place.siblings) {
      void* sibling = dlmopen(space, path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (sibling != nullptr && space == LM_ID_NEWLM) dlinfo(sibling, RTLD_DI_LMID, &space);
    }
    if (space != LM_ID_NEWLM) registry = dlmopen(space, place.registry.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (registry == nullptr) {
      Say("failure", reason.c_str());
      return 0;
    }
  }
  return AskGgml(registry, FolderOf(place.registry), plugin);
}

constexpr const char* kPythonProbe = R"(
import ctypes, os, sys
path, plugin = sys.argv[1:3]
def say(key, value): print(f"{key}={value}", flush=True)
try: g = ctypes.CDLL(path)
except OSError as error: say("failure", error); sys.exit()
def f(name, result, *arguments):
    function = getattr(g, name); function.restype = result; function.argtypes = arguments; return function
try:
    count, by_name = f("ggml_backend_reg_count", ctypes.c_size_t), f("ggml_backend_reg_by_name", ctypes.c_void_p, ctypes.c_char_p)
    load = f("ggml_backend_load", ctypes.c_void_p, ctypes.c_char_p)
    devices, get = f("ggml_backend_dev_count", ctypes.c_size_t), f("ggml_backend_dev_get", ctypes.c_void_p, ctypes.c_size_t)
    name = f("ggml_backend_dev_name", ctypes.c_char_p, ctypes.c_void_p)
except AttributeError as error: say("failure", f"it lacks functions of ggml's backend registry: {error}"); sys.exit()
try: say("version", f("ggml_version", ctypes.c_char_p)().decode())
except AttributeError: say("version", "older than 0.9.5")
say("linked", count())
cpu = by_name(b"CPU")
if cpu: say("api", ctypes.cast(cpu, ctypes.POINTER(ctypes.c_int))[0])
say("loaded", 1 if load(os.fsencode(plugin)) else 0)
for i in range(devices()): say("device", name(get(i)).decode())
sys.stdout.flush(); os._exit(0)
)";

ChildResult RunPython(const GgmlPlace& place, const std::string& plugin, int seconds, std::string* failure) {
  // `…cpython-312-x86_64-linux-gnu.so` belongs to one version of Python.
  const std::string name = BaseName(place.registry);
  const size_t tag = name.find(".cpython-3");
  StatusOr<std::string> python = Status::NotFound("");
  if (tag != std::string::npos) python = FindProgram("python3." + name.substr(tag + 10, name.find('-', tag + 10) - tag - 10));
  if (!python.ok()) python = FindProgram("python3");
  if (!python.ok()) {
    *failure = "it is a Python extension and there is no python3 in PATH to load it";
    return {};
  }
  return RunProgram({python.value(), "-I", "-c", kPythonProbe, place.registry, plugin}, {{}, {"GGML_BACKEND_PATH"}}, seconds);
}

}  // namespace

bool ProbeResult::HasDevice(const std::string& name) const { return std::find(devices.begin(), devices.end(), name) != devices.end(); }

std::vector<std::string> LastLines(const std::string& text, size_t limit) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (lines.size() > limit) lines.erase(lines.begin(), lines.end() - static_cast<ptrdiff_t>(limit));
  return lines;
}

ProbeResult ProbeLibrary(const GgmlPlace& place, const std::string& plugin, int seconds) {
  ProbeResult result;
  const ChildResult child = place.python ? RunPython(place, plugin, seconds, &result.failure)
                                         : RunInChild(
                                               [&] {
                                                 unsetenv("GGML_BACKEND_PATH");  // the plugin is loaded by name below, once
                                                 return LoadAndAsk(place, plugin.c_str());
                                               },
                                               seconds);
  for (const std::string& line : LastLines(child.out, 1000)) {
    const size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string key = line.substr(0, equals), value = line.substr(equals + 1);
    if (key == "failure") result.failure = value;
    if (key == "version") result.ggml_version = value;
    if (key == "linked") result.backends_linked = std::atoi(value.c_str());
    if (key == "api") result.api = std::atoi(value.c_str());
    if (key == "loaded") result.plugin_loaded = value == "1";
    if (key == "device") result.devices.push_back(value);
  }
  result.messages = LastLines(child.err, 12);
  result.ran = !result.ggml_version.empty();
  if (!child.Succeeded() && result.failure.empty()) result.failure = "the process that loaded it " + child.HowItEnded();
  return result;
}

}  // namespace swivel::cli
