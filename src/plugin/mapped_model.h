// Which model the process runs.
#ifndef SWIVEL_PLUGIN_MAPPED_MODEL_H_
#define SWIVEL_PLUGIN_MAPPED_MODEL_H_

#include <map>
#include <mutex>
#include <string>

#include "base/status.h"
#include "gguf/fingerprint.h"

namespace swivel::plugin {

// The path of the one GGUF file that is mapped into this process (llama.cpp maps models unless told not to): a plugin is told nothing else
// about the model. Errors: kNotFound when none is, or several that differ are (a draft model).
StatusOr<std::string> MappedModel();

// read(path) of the mapped model, kept for each path: reading a header takes its time, and every layer asks.
template <class T>
class OfMappedModel {
 public:
  explicit OfMappedModel(StatusOr<T> (*read)(const std::string& path)) : read_(read) {}

  StatusOr<T> Get() {
    StatusOr<std::string> model = MappedModel();
    if (!model.ok()) return model.status();
    std::lock_guard lock(mutex_);
    if (const auto found = known_.find(*model); found != known_.end()) return found->second;
    StatusOr<T> value = read_(*model);
    if (value.ok()) known_[*model] = *value;
    return value;
  }

 private:
  StatusOr<T> (*read_)(const std::string&);
  std::mutex mutex_;
  std::map<std::string, T> known_;
};

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_MAPPED_MODEL_H_
