// What the user asked for: read once from the environment, the spec also changeable by the host program.
#ifndef SWIVEL_PLUGIN_SETTINGS_H_
#define SWIVEL_PLUGIN_SETTINGS_H_

#include <string>

#include "base/status.h"
#include "cache/spec.h"
#include "kernel/kernels.h"

namespace swivel::plugin {

// SWIVEL_LOG, the first that is read, so that everything after it is recorded: unset, empty or 0: off; 1 or stderr: the list of operations;
// anything else names the file of events. Errors: kIo, a file that cannot be written.
Status ReadLogVariable();
// SWIVEL_KV (default: kDefaultSpec) and SWIVEL_TARGET. Errors: those of ParseSpec and ChooseTarget.
Status ReadEnvironment();

// The spec that the next cache gets. Thread safe.
CacheSpec CurrentSpec();
Status SetSpec(const std::string& text);

const Kernels& kernels();

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_SETTINGS_H_
