#include "llama/log.h"

#include <cstdio>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "llama.h"

namespace swivel {
namespace {

// The hook of llama.cpp is one per process, so this state is as well.
struct Log {
  struct Line {
    ggml_log_level level;
    std::string text;
  };
  std::mutex mutex;
  std::deque<Line> lines;
  size_t dropped = 0;
  bool verbose = false;
};

Log& GlobalLog() {
  static Log* log = new Log;  // never freed: ggml may log while statics are destroyed
  return *log;
}

void OnLog(ggml_log_level level, const char* text, void*) {
  constexpr size_t kMaxLines = 4000;
  Log& log = GlobalLog();
  std::lock_guard<std::mutex> lock(log.mutex);
  if (log.verbose) std::fputs(text, stderr);
  // Progress dots and the rest of a line arrive with the level CONT.
  if (level == GGML_LOG_LEVEL_CONT && !log.lines.empty()) {
    log.lines.back().text += text;
    return;
  }
  log.lines.push_back({level, text});
  if (log.lines.size() > kMaxLines) {
    log.lines.pop_front();
    ++log.dropped;
  }
}

std::string Trim(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  // "llama_model_load: error loading model: …": the name of a function says nothing to a user.
  const size_t colon = text.find(": ");
  if (colon != std::string_view::npos && text.substr(0, colon).find_first_of(" '\"/") == std::string_view::npos) {
    text.remove_prefix(colon + 2);
  }
  return std::string(text);
}

}  // namespace

void CaptureLlamaLog(bool verbose) {
  Log& log = GlobalLog();
  {
    std::lock_guard<std::mutex> lock(log.mutex);
    log.verbose = verbose;
  }
  llama_log_set(OnLog, nullptr);
}

LlamaLogMark::LlamaLogMark() {
  Log& log = GlobalLog();
  std::lock_guard<std::mutex> lock(log.mutex);
  first_line_ = log.dropped + log.lines.size();
}

std::string LlamaLogMark::Errors() const {
  Log& log = GlobalLog();
  std::lock_guard<std::mutex> lock(log.mutex);
  const size_t begin = first_line_ > log.dropped ? first_line_ - log.dropped : 0;
  std::vector<std::string> errors;
  std::string warning;
  for (size_t i = begin; i < log.lines.size(); ++i) {
    if (log.lines[i].level == GGML_LOG_LEVEL_ERROR) errors.push_back(Trim(log.lines[i].text));
    if (log.lines[i].level == GGML_LOG_LEVEL_WARN) warning = Trim(log.lines[i].text);
  }
  if (errors.empty()) return warning.empty() ? "no message" : warning;
  // The first line names the cause; the rest is every caller adding that it failed too.
  std::string joined = errors[0];
  for (size_t i = 1; i < errors.size() && i < 3; ++i) joined += "; " + errors[i];
  return joined;
}

}  // namespace swivel
