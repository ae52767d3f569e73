// What the plugin tells the person at the terminal. A plugin has no log callback of its own, so it speaks on stderr.
//
// Rule of the house: one line where something is in force, one line where something is refused, nothing else unless SWIVEL_LOG=1.
#ifndef SWIVEL_PLUGIN_LOG_H_
#define SWIVEL_PLUGIN_LOG_H_

#include <string>

namespace swivel::plugin {

// "swivel: <text>" in one write, so that lines of several threads do not mix.
void Say(const std::string& text);
// The same, once in the life of the process for each text.
void SayOnce(const std::string& text);
// The line that announces the plugin: "swivel <version>: <text>".
void SayLoaded(const std::string& text);

// SWIVEL_LOG=1: lines about KV operations and buffer calls, each distinct one once. Callers test TraceOn() before they build the text.
void SetTrace(bool on);
bool TraceOn();
void Trace(const std::string& text);

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_LOG_H_
