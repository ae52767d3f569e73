// Runs what may hang or crash in a process of its own.
#ifndef SWIVEL_CLI_DOCTOR_PROCESS_H_
#define SWIVEL_CLI_DOCTOR_PROCESS_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace swivel::cli {

struct ChildResult {
  int exit_status = -1;  // -1: did not exit by itself
  int signal = 0;        // that ended it
  bool timed_out = false;
  std::string out, err;  // at most kMaxChildOutput bytes each

  bool Succeeded() const { return exit_status == 0; }
  std::string HowItEnded() const;  // "exit status 1", "crashed (signal 11)", "did not answer in time"
};

inline constexpr size_t kMaxChildOutput = 1 << 20;

// Forks, runs `body` in the child with stdin empty and stdout and stderr captured, and ends the child and its children after `seconds`.
// The caller must have one thread only.
ChildResult RunInChild(const std::function<int()>& body, int seconds);

struct Environment {
  std::vector<std::pair<std::string, std::string>> set;
  std::vector<std::string> unset;
};
// The same for a program; argv[0] is its path. Exit status 127 when it cannot be started.
ChildResult RunProgram(const std::vector<std::string>& argv, const Environment& environment, int seconds);

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_DOCTOR_PROCESS_H_
