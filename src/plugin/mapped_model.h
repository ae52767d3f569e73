// Which model the process runs.
#ifndef SWIVEL_PLUGIN_MAPPED_MODEL_H_
#define SWIVEL_PLUGIN_MAPPED_MODEL_H_

#include <string>

#include "base/status.h"
#include "gguf/fingerprint.h"

namespace swivel::plugin {

// The path of the one GGUF file that is mapped into this process (llama.cpp maps models unless told not to): a plugin is told nothing else
// about the model. Errors: kNotFound when none is, or several that differ are (a draft model).
StatusOr<std::string> MappedModel();

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_MAPPED_MODEL_H_
