// Command lines as a POSIX shell reads them back.
#ifndef SWIVEL_EVAL_COMMAND_LINE_H_
#define SWIVEL_EVAL_COMMAND_LINE_H_

#include <string>

namespace swivel {

// One word (or more), in quotes where it needs them.
std::string ShellQuote(const std::string& word);
// How this process was called; empty where the system does not say.
std::string OwnCommandLine();

}  // namespace swivel

#endif  // SWIVEL_EVAL_COMMAND_LINE_H_
