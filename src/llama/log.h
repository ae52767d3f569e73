// The log of llama.cpp and ggml, kept in memory and shown only when something failed (or with -v).
//
// llama.cpp prints hundreds of lines a load and reports most failures only there: its functions return NULL. So the log is captured
// and the error lines become the text of our Status.
#ifndef SWIVEL_LLAMA_LOG_H_
#define SWIVEL_LLAMA_LOG_H_

#include <cstddef>
#include <string>

namespace swivel {

// Routes the log into memory; with `verbose` every line also goes to stderr. Call before any other function of llama.cpp; may be
// called again to change `verbose`.
void CaptureLlamaLog(bool verbose);

// Remembers where the log stood when it was made.
class LlamaLogMark {
 public:
  LlamaLogMark();
  // The last error lines since then, joined with "; ", without llama.cpp's function-name prefixes; the last warning when there was no
  // error; "no message" when there was neither.
  std::string Errors() const;

 private:
  size_t first_line_;
};

}  // namespace swivel

#endif  // SWIVEL_LLAMA_LOG_H_
