// The subcommands of `swivel`, one file each.
#ifndef SWIVEL_CLI_COMMANDS_H_
#define SWIVEL_CLI_COMMANDS_H_

#include <CLI/CLI.hpp>

namespace swivel::cli {

// Each adds its subcommand to `app`. When the user chose it, its callback sets *exit_code (0 success, 1 failure; compare says more);
// results go to stdout, messages and progress to stderr.
void AddRun(CLI::App& app, int* exit_code);
void AddEval(CLI::App& app, int* exit_code);
void AddCompare(CLI::App& app, int* exit_code);
void AddBench(CLI::App& app, int* exit_code);
void AddTune(CLI::App& app, int* exit_code);
void AddExec(CLI::App& app, int* exit_code);
void AddSize(CLI::App& app, int* exit_code);
void AddInfo(CLI::App& app, int* exit_code);
void AddCodecs(CLI::App& app, int* exit_code);
void AddDistortion(CLI::App& app, int* exit_code);
void AddCapture(CLI::App& app, int* exit_code);
void AddCalibrate(CLI::App& app, int* exit_code);
void AddDoctor(CLI::App& app, int* exit_code);
void AddPluginPath(CLI::App& app, int* exit_code);

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_COMMANDS_H_
