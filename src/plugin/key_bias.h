// The warning for models whose keys have a bias.
#ifndef SWIVEL_PLUGIN_KEY_BIAS_H_
#define SWIVEL_PLUGIN_KEY_BIAS_H_

#include "cache/spec.h"

namespace swivel::plugin {

// Says, once in the life of the process, that keys in `codec` lose much, when the process has one model mapped whose keys have a bias and the spec
// does nothing about it. Cheap where the spec does.
void WarnOfKeyBias(const CacheSpec& spec, const Codec& codec);

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_KEY_BIAS_H_
