// swivel exec PROGRAM ARGS…: the command people know, with a compressed cache.
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cache/spec.h"
#include "cli/commands.h"
#include "cli/exec_plan.h"
#include "cli/paths.h"

extern char** environ;

namespace swivel::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  swivel exec llama-server -m model.gguf -ctk turbo3 -ctv turbo4 -c 262144\n"
    "  swivel exec --kv k=turbo4,v=turbo3 llama-cli -m model.gguf\n"
    "  swivel exec llama-bench -m model.gguf -ctk turbo3,turbo4 -ctv turbo4 -d 0,8192   (a run for each pair)\n"
    "  swivel exec rpc-server -p 50052                  (the client needs nothing)\n"
    "  swivel exec python3 script.py                    (environment only; SWIVEL_PLUGIN for ggml_backend_load)\n"
    "-ctk, -ctv and --kv are taken out of the program's arguments; without them SWIVEL_KV or the default is used. Unless given,\n"
    "--device SWIVEL, -fa on and -ngl 999 are added. The program itself is not changed.";

struct Options {
  std::string kv;
  bool dry_run = false;
};

int Fail(const std::string& message) {
  fmt::print(stderr, "swivel exec: {}\n", message);
  return 1;
}

std::map<std::string, std::string> EnvironmentMap() {
  std::map<std::string, std::string> map;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) map.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return map;
}

// Replaces this process; returns only when that fails, with the exit status of a shell in the same case.
int Become(const std::string& path, const ExecRun& run) {
  for (const std::string& name : run.unset) unsetenv(name.c_str());
  for (const auto& [name, value] : run.set) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& word : run.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(path.c_str(), argv.data());
  const int reason = errno;
  Fail(path + ": " + std::strerror(reason));
  return reason == ENOENT ? 127 : 126;
}

// Runs one after the other; the first that fails ends the series. Ctrl-C reaches the child; the series ends with it.
int RunSeries(const std::string& path, const std::vector<ExecRun>& runs) {
  signal(SIGINT, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  for (size_t i = 0; i < runs.size(); ++i) {
    fmt::print(stderr, "swivel exec: run {} of {}: {}\n", i + 1, runs.size(), runs[i].spec);
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0) return Fail(std::string("fork: ") + std::strerror(errno));
    if (child == 0) {
      signal(SIGINT, SIG_DFL);
      signal(SIGQUIT, SIG_DFL);
      _exit(Become(path, runs[i]));
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
    if (WEXITSTATUS(status) != 0) return WEXITSTATUS(status);
  }
  return 0;
}

int Exec(const Options& options, const std::vector<std::string>& command) {
  ExecRequest request;
  request.kv = options.kv;
  request.command = command;
  request.environment = EnvironmentMap();
  // The command is judged before anything is looked up, so that a misspelt type is what the user hears about first.
  const StatusOr<std::string> plugin = PluginPath();
  request.plugin = plugin.ok() ? plugin.value() : "";
  const StatusOr<ExecPlan> plan = PlanExec(request);
  if (!plan.ok()) return Fail(plan.status().message());
  if (!plugin.ok()) return Fail(plugin.status().message());
  const StatusOr<std::string> path = FindProgram(command[0]);
  if (!path.ok()) return Fail(path.status().message());

  const std::vector<ExecRun>& runs = plan.value().runs;
  if (options.dry_run) {
    for (const ExecRun& run : runs) fmt::print("{}\n", run.ToShell());
  }
  for (const std::string& note : plan.value().notes) fmt::print(stderr, "swivel exec: {}\n", note);
  if (options.dry_run) return 0;
  if (runs.size() > 1) return RunSeries(path.value(), runs);
  fmt::print(stderr, "swivel exec: {}\n", runs[0].ToShell());
  std::fflush(nullptr);
  return Become(path.value(), runs[0]);
}

}  // namespace

void AddExec(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("exec", "Run an unmodified llama.cpp program with a compressed cache: exec PROGRAM ARGS…");
  command->add_option("--kv", options->kv, "Cache specification. " + SpecHelp());
  command->add_flag("--dry-run", options->dry_run, "Print the command and its environment instead of running it");
  command->footer(kExamples);
  command->prefix_command();  // from PROGRAM on, nothing is ours
  command->callback([command, options, exit_code] { *exit_code = Exec(*options, command->remaining()); });
}

}  // namespace swivel::cli
