#include "plugin/log.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

#include "base/version.h"

namespace swivel::plugin {
namespace {

std::atomic<bool> trace_on{false};

// Never destroyed: the host may free buffers while the process exits.
bool FirstTime(const std::string& text) {
  static auto* mutex = new std::mutex;
  static auto* said = new std::set<std::string>;
  std::lock_guard lock(*mutex);
  return said->insert(text).second;
}

void Write(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

}  // namespace

void Say(const std::string& text, Event event) {
  Write("swivel: " + text);
  Record(event.Text("text", text));
}

void SayOnce(const std::string& text, Event event) {
  if (FirstTime(text)) Say(text, std::move(event));
}

void SayFirst(const std::string& text, Event event) {
  if (FirstTime(text)) {
    Say(text, std::move(event));
  } else {
    Record(event.Text("text", text));
  }
}

void SayLoaded(const std::string& text, Event event) {
  Write("swivel " SWIVEL_VERSION ": " + text);
  Record(event.Text("version", SWIVEL_VERSION));
}

void SetTrace(bool on) { trace_on.store(on, std::memory_order_relaxed); }
bool TraceOn() { return trace_on.load(std::memory_order_relaxed); }

void Trace(const std::string& text) {
  if (FirstTime("[kv] " + text)) Write("swivel [kv] " + text);
}

}  // namespace swivel::plugin
