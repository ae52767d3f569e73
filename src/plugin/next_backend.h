// SWIVEL_NEXT: another backend to load, for hosts whose one GGML_BACKEND_PATH is taken by us.
#ifndef SWIVEL_PLUGIN_NEXT_BACKEND_H_
#define SWIVEL_PLUGIN_NEXT_BACKEND_H_

namespace swivel::plugin {

// Has the host load the backend that SWIVEL_NEXT names, if any, and says so in one line; a failure is a line too, and ours stays loaded.
// Precondition: the host is bound. Its devices come before ours in the host's list.
void LoadNext();

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_NEXT_BACKEND_H_
