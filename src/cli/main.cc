// `swivel`: the command-line tool. Parses, hands over to one subcommand, returns its exit status.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "base/version.h"
#include "cli/commands.h"

int main(int argc, char** argv) {
  CLI::App app{"Swivel: a compressed KV cache for unmodified llama.cpp", "swivel"};
  app.set_version_flag("--version", std::string("swivel ") + SWIVEL_VERSION);
  app.require_subcommand(1);
  int exit_code = 0;
  swivel::cli::AddRun(app, &exit_code);
  swivel::cli::AddEval(app, &exit_code);
  swivel::cli::AddCompare(app, &exit_code);
  swivel::cli::AddBench(app, &exit_code);
  swivel::cli::AddTune(app, &exit_code);
  swivel::cli::AddExec(app, &exit_code);
  swivel::cli::AddSize(app, &exit_code);
  swivel::cli::AddInfo(app, &exit_code);
  swivel::cli::AddCodecs(app, &exit_code);
  swivel::cli::AddDistortion(app, &exit_code);
  swivel::cli::AddCapture(app, &exit_code);
  swivel::cli::AddCalibrate(app, &exit_code);
  swivel::cli::AddDoctor(app, &exit_code);
  swivel::cli::AddPluginPath(app, &exit_code);
  const auto named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(named).empty()) {
    std::fprintf(stderr, "swivel: no subcommand '%s'; swivel --help lists them\n", argv[1]);
    return 1;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 numbers its errors; scripts are promised 1, and 2 where 1 says that a limit is exceeded.
    const bool compares = argc > 1 && std::string(argv[1]) == "compare";
    return app.exit(error) == 0 ? 0 : compares ? 2 : 1;
  }
  return exit_code;
}
