// A host of another ggml version, made of the pinned one: fake_host.cc defines some of its functions again, and the plugin, which looks
// them up in the object that called it, finds those first.
#ifndef SWIVEL_TESTS_LOADING_FAKE_HOST_H_
#define SWIVEL_TESTS_LOADING_FAKE_HOST_H_

#include "ggml-backend.h"

namespace swivel::plugin_test {

struct FakeHost {
  int api_version = 3;
  const char* version = "0.26.0";
  bool buffer_type_of_api2 = false;  // the accessors read the table of API 2
  int is_host_slot = -1;             // where ggml_backend_buft_is_host looks; -1: where that API has it
  size_t tensor_bytes_more = 0;
  const char* lost_operation = "";
  ggml_backend_reg_t (*load)(const char* plugin) = nullptr;  // set by the library: calls ggml_backend_init from there
};

}  // namespace swivel::plugin_test

#endif  // SWIVEL_TESTS_LOADING_FAKE_HOST_H_
