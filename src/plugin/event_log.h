// SWIVEL_LOG=FILE: what happened, one JSON object a line, for programs that watch a server.
//
// Every event has "time" (UTC, milliseconds), "pid" and "event"; the other keys are listed in docs/plugin.md. A line is appended by one
// write, so several processes may share a file. What is said on stderr (log.h) is recorded here, too.
#ifndef SWIVEL_PLUGIN_EVENT_LOG_H_
#define SWIVEL_PLUGIN_EVENT_LOG_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace swivel::plugin {

// Text as a JSON string, quotes included. Bytes that are no UTF-8 pass through: paths are what they are.
std::string JsonText(std::string_view text);

// Collects the members of one line. Keys are literals that need no escapes.
class Event {
 public:
  explicit Event(const char* name) : name_(name) {}
  Event& Text(const char* key, std::string_view value);
  Event& Number(const char* key, int64_t value);
  Event& Number(const char* key, double value);

 private:
  friend void Record(const Event& event);
  const char* name_;
  std::string members_;  // ,"key":value…
};

// Opens the file for appending, creating it if need be. Errors: kIo with the reason.
Status OpenEventLog(const std::string& path);

// Appends a line; nothing when no log is open. A write that fails (a full disk) closes the log, says so on stderr once, and the host runs
// on.
void Record(const Event& event);

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_EVENT_LOG_H_
