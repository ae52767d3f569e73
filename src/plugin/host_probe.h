// Where a host's ggml expects the entries of the tables that a backend hands to it, found out by asking it.
//
// Only accessors that every ggml exports are called, on made-up objects whose entries all note which of them was called. So nothing is read
// at an offset that was not probed before, and a host that is newer than this file is recognised or refused instead of crashing.
#ifndef SWIVEL_PLUGIN_HOST_PROBE_H_
#define SWIVEL_PLUGIN_HOST_PROBE_H_

#include <functional>

#include "base/status.h"

namespace swivel::plugin {

// The two sets of tables that the plugin can fill in. They differ in the buffer type.
enum class TableGeneration { kApi2, kApi3 };

// `find`: the host's function of a name, or null; what is asked by a function that the host lacks stays unchecked. Errors: kUnsupported,
// with the table, the entry, and where it was found and expected. Not thread safe.
StatusOr<TableGeneration> ProbeTables(const std::function<void*(const char* name)>& find);

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_HOST_PROBE_H_
