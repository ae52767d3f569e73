// `swivel exec`: from the command people know to the command that runs, as a pure function.
//
// Goals: never a silent bypass: whatever would leave the cache uncompressed is an error that names the option. Non-goals: knowing all
// of llama.cpp's options; what does not concern the cache passes through untouched.
#ifndef SWIVEL_CLI_EXEC_PLAN_H_
#define SWIVEL_CLI_EXEC_PLAN_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cli/exec_programs.h"

namespace swivel::cli {

struct ExecRequest {
  std::string kv;                    // --kv in front of the program; empty: not given
  std::vector<std::string> command;  // PROGRAM ARGS…; not empty
  std::map<std::string, std::string> environment;
  std::string plugin;  // path of libggml-swivel.so
};

struct ExecRun {
  std::string spec;  // canonical text of the cache specification
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> set;  // environment
  std::vector<std::string> unset;

  // The run as a line for a shell.
  std::string ToShell() const;
};

struct ExecPlan {
  ProgramKind kind = ProgramKind::kOther;
  std::vector<ExecRun> runs;       // one, or one for each pair of types given to llama-bench
  std::vector<std::string> notes;  // for the user, one line each
};

// Errors: kInvalidArgument; the message names the option or the type and what is accepted.
StatusOr<ExecPlan> PlanExec(const ExecRequest& request);

// The name in `names` that needs the fewest edits to become `word`; empty when even that is far off.
std::string NearestName(const std::string& word, const std::vector<std::string>& names);

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_EXEC_PLAN_H_
