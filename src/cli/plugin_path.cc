// swivel plugin-path: for people who set the environment themselves, and for scripts.
#include <fmt/core.h>

#include "cli/commands.h"
#include "cli/paths.h"

namespace swivel::cli {

void AddPluginPath(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("plugin-path", "Print the path of libggml-swivel.so");
  command->footer(
      "Example:\n"
      "  GGML_BACKEND_PATH=$(swivel plugin-path) SWIVEL_KV=turbo4 llama-server --device SWIVEL -m model.gguf\n"
      "SWIVEL_PLUGIN, when set, is the answer.");
  command->callback([exit_code] {
    const StatusOr<std::string> plugin = PluginPath();
    if (!plugin.ok()) {
      fmt::print(stderr, "swivel plugin-path: {}\n", plugin.status().message());
      *exit_code = 1;
      return;
    }
    fmt::print("{}\n", plugin.value());
  });
}

}  // namespace swivel::cli
