// Runs a program to its end and collects what it printed.
#ifndef SWIVEL_EVAL_CHILD_PROCESS_H_
#define SWIVEL_EVAL_CHILD_PROCESS_H_

#include <string>
#include <vector>

#include "base/status.h"

namespace swivel {

struct ChildResult {
  int exit_code = 0;  // 128 + signal when one ended it
  std::string out;
  std::string err;
};

// `arguments[0]` is the path of the program. Blocks; stdin is /dev/null. kInternal when it could not be started.
StatusOr<ChildResult> RunChild(const std::vector<std::string>& arguments);

// The program that is running: what to start for "another one of me".
StatusOr<std::string> OwnExecutable();

}  // namespace swivel

#endif  // SWIVEL_EVAL_CHILD_PROCESS_H_
