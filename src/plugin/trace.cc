#include "plugin/trace.h"

#include <cctype>
#include <string>

#include "plugin/host.h"
#include "plugin/kv_names.h"
#include "plugin/log.h"

namespace swivel::plugin {
namespace {

std::string WithoutNumbers(const char* name) {
  std::string text;
  for (; *name != '\0'; ++name) {
    const bool digit = std::isdigit(static_cast<unsigned char>(*name)) != 0;
    if (!digit) {
      text += *name;
    } else if (text.empty() || text.back() != '#') {
      text += '#';
    }
  }
  return text;
}

std::string Describe(const ggml_tensor* tensor) {
  std::string text = std::string(host().ggml_type_name(tensor->type)) + "[";
  for (int i = 0; i < 4; ++i) text += (i > 0 ? "," : "") + std::to_string(tensor->ne[i]);
  text += "] " + WithoutNumbers(RootOf(tensor)->name);
  if (tensor->view_src != nullptr) text += "+" + std::to_string(tensor->view_offs);
  return text;
}

}  // namespace

void TraceNode(const ggml_tensor* node) {
  std::string text = std::string(host().ggml_op_name(node->op)) + " -> " + Describe(node);
  for (const ggml_tensor* source : node->src) {
    if (source != nullptr) text += " | " + Describe(source);
  }
  Trace(text);
}

}  // namespace swivel::plugin
