// What the plugin tells the person at the terminal. A plugin has no log callback of its own, so it speaks on stderr.
//
// Rule of the house: one line where something is in force, one line where something is refused, one with the totals when a context ends,
// nothing else unless SWIVEL_LOG=1. Every line is also an event (event_log.h).
#ifndef SWIVEL_PLUGIN_LOG_H_
#define SWIVEL_PLUGIN_LOG_H_

#include <string>

#include "plugin/event_log.h"

namespace swivel::plugin {

// "swivel: <text>" in one write, so that lines of several threads do not mix; and the event, with the text.
void Say(const std::string& text, Event event = Event("warning"));
// The same, once in the life of the process for each text.
void SayOnce(const std::string& text, Event event = Event("warning"));
// The line once for each text, the event every time.
void SayFirst(const std::string& text, Event event);
// The line that announces the plugin: "swivel <version>: <text>".
void SayLoaded(const std::string& text, Event event);

// SWIVEL_LOG=1: lines about KV operations and buffer calls, each distinct one once. Callers test TraceOn() before they build the text.
void SetTrace(bool on);
bool TraceOn();
void Trace(const std::string& text);

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_LOG_H_
