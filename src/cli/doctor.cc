// swivel doctor HOST: does this llama.cpp take the plugin, and if not, why.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/doctor_find.h"
#include "cli/doctor_probe.h"
#include "cli/doctor_process.h"
#include "cli/exec_programs.h"
#include "cli/paths.h"
#include "eval/command_line.h"

namespace swivel::cli {
namespace {

constexpr const char* kDevice = "SWIVEL";

struct Options {
  std::string host;
  std::string output = "text";
  int seconds = 30;
};

// What `HOST --list-devices` says with GGML_BACKEND_PATH set.
enum class Listing { kNotAsked, kShown, kMissing, kNoAnswer };

struct Report {
  Host host;
  std::string plugin;
  bool probed = false;
  ProbeResult probe;
  Listing listing = Listing::kNotAsked;
  std::string listing_note;
  bool accepted = false;
  std::string reason;      // of a refusal
  std::string advice;      // how to use it, when accepted
  std::string path_alone;  // "yes", "no", "unknown": does GGML_BACKEND_PATH without --device suffice
};

void ListDevices(const Options& options, Report* report) {
  if (report->host.program.empty() || report->host.what == "static program") return;
  if (Locate({report->host.program}).kind == ProgramKind::kRpcServer) return;  // has no such option
  const Environment environment{{{"GGML_BACKEND_PATH", report->plugin}}, {"LLAMA_ARG_DEVICE"}};
  const ChildResult child = RunProgram({report->host.program, "--list-devices"}, environment, options.seconds);
  if ((child.out + child.err).find(std::string(kDevice) + ":") != std::string::npos) {
    report->listing = Listing::kShown;
  } else if (child.Succeeded() && child.out.find("evices") != std::string::npos) {
    report->listing = Listing::kMissing;
    report->listing_note = "its list of devices lacks " + std::string(kDevice);
    for (const std::string& line : LastLines(child.err, 100)) {
      // The line in which ggml says why it did not take the plugin.
      if (line.find("load_backend") != std::string::npos || line.find("wivel") != std::string::npos) report->probe.messages.push_back(line);
    }
  } else {
    report->listing = Listing::kNoAnswer;
    const std::vector<std::string> lines = LastLines(child.err + child.out, 1);
    report->listing_note = report->host.program + " --list-devices: " + child.HowItEnded() + (lines.empty() ? "" : ": " + lines[0]);
  }
}

std::string PathAlone(const Report& report) {
  if (!report.host.program.empty()) {
    const ProgramKind kind = Locate({report.host.program}).kind;
    if (kind == ProgramKind::kBench || kind == ProgramKind::kRpcServer) return "yes";
  }
  if (!report.probed || !report.probe.ran) return "unknown";
  return report.probe.backends_linked == 0 ? "yes" : "no";
}

std::string Advice(const Report& report) {
  if (!report.host.program.empty()) return "swivel exec " + ShellQuote(report.host.program) + " …";
  return fmt::format(
      "call ggml_backend_load(\"{}\") before the model is loaded and place its layers on device {}; in Python: "
      "ctypes.CDLL(\"{}\").ggml_backend_load(…)",
      report.plugin, kDevice, report.host.ggml ? report.host.ggml->registry : "libggml.so");
}

void Decide(Report* report) {
  const ProbeResult& probe = report->probe;
  const bool library_accepts = report->probed && probe.plugin_loaded && probe.HasDevice(kDevice);
  // The program itself is the better witness; the library speaks where it gave no answer.
  report->accepted = report->listing == Listing::kShown || (report->listing != Listing::kMissing && library_accepts);
  report->path_alone = PathAlone(*report);
  if (report->accepted) {
    report->advice = Advice(*report);
  } else if (report->host.what == "static program") {
    report->reason = "it is statically linked";
  } else if (report->probed && !probe.ran) {
    report->reason = "its ggml cannot be loaded: " + probe.failure;
  } else if (report->probed && !probe.plugin_loaded) {
    report->reason = probe.failure.empty() ? "ggml did not take the plugin" : probe.failure;
  } else if (report->probed && !probe.HasDevice(kDevice)) {
    report->reason = fmt::format("the plugin was loaded, but no device {} appeared", kDevice);
  } else if (report->listing == Listing::kMissing) {
    report->reason = report->listing_note;
  } else {
    report->reason = "no ggml was found in it" + (report->listing_note.empty() ? "" : ", and " + report->listing_note);
  }
}

void PrintText(const Report& report) {
  const auto line = [](const char* label, const std::string& text) { fmt::print("{:<9} {}\n", label, text); };
  const ProbeResult& probe = report.probe;
  line("host", fmt::format("{} ({})", report.host.path, report.host.what));
  if (report.host.ggml) line("ggml", report.host.ggml->registry);
  if (probe.ran) {
    line("version", fmt::format("ggml {}, backend API {}", probe.ggml_version, probe.api > 0 ? std::to_string(probe.api) : "unknown"));
    line("backends", probe.backends_linked > 0 ? "linked in" : "loaded at run time");
  }
  line("plugin", report.plugin);
  if (probe.ran) {
    std::string devices;
    for (const std::string& device : probe.devices) devices += (devices.empty() ? "" : ", ") + device;
    line("loading", fmt::format("{}; devices: {}", probe.plugin_loaded ? "accepted" : "refused", devices.empty() ? "none" : devices));
  }
  if (report.listing == Listing::kShown) line("program", fmt::format("{} --list-devices shows {}", report.host.program, kDevice));
  if (!report.listing_note.empty()) line("program", report.listing_note);
  for (const std::string& note : report.host.notes) line("note", note);
  if (!report.accepted) {
    for (const std::string& message : probe.messages) line("said", message);
  }
  if (report.accepted && report.path_alone == "no") {
    line("note", fmt::format("GGML_BACKEND_PATH alone is not enough: programs with llama.cpp's common options need --device {} too, "
                             "bindings need ggml_backend_load",
                             kDevice));
  }
  if (report.accepted && report.path_alone == "yes") line("note", "GGML_BACKEND_PATH alone is enough");
  line("verdict", report.accepted ? "accepted; use: " + report.advice : "refused: " + report.reason);
}

void PrintJson(const Report& report) {
  nlohmann::ordered_json json = {{"host", report.host.path},
                                 {"what", report.host.what},
                                 {"plugin", report.plugin},
                                 {"accepted", report.accepted},
                                 {"path_alone", report.path_alone}};
  if (!report.accepted) json["reason"] = report.reason;
  if (report.accepted) json["use"] = report.advice;
  if (report.host.ggml) json["ggml"] = report.host.ggml->registry;
  if (report.probe.ran) {
    json["ggml_version"] = report.probe.ggml_version;
    json["backend_api"] = report.probe.api;
    json["backends_linked"] = report.probe.backends_linked;
    json["plugin_loaded"] = report.probe.plugin_loaded;
    json["devices"] = report.probe.devices;
  }
  if (report.listing != Listing::kNotAsked) json["program"] = report.host.program;
  if (report.listing != Listing::kNotAsked) json["list_devices"] = report.listing == Listing::kShown;
  if (!report.listing_note.empty()) json["list_devices_note"] = report.listing_note;
  json["messages"] = report.probe.messages;
  json["notes"] = report.host.notes;
  // What hosts say may be in any encoding.
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

int Doctor(const Options& options) {
  Report report;
  const StatusOr<std::string> plugin = PluginPath();
  if (!plugin.ok()) {
    fmt::print(stderr, "swivel doctor: {}\n", plugin.status().message());
    return 1;
  }
  report.plugin = plugin.value();
  const StatusOr<Host> host = FindHost(options.host);
  if (!host.ok()) {
    fmt::print(stderr, "swivel doctor: {}\n", host.status().message());
    return 1;
  }
  report.host = host.value();
  if (report.host.ggml) {
    report.probed = true;
    report.probe = ProbeLibrary(*report.host.ggml, report.plugin, options.seconds);
  }
  ListDevices(options, &report);
  Decide(&report);
  options.output == "json" ? PrintJson(report) : PrintText(report);
  return report.accepted ? 0 : 1;
}

}  // namespace

void AddDoctor(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("doctor", "Tell whether a llama.cpp takes the plugin, and if not, why");
  command->add_option("HOST", options->host, "A llama.cpp program, a shared library, a folder, or a Python extension")->required();
  command->add_option("-o,--output", options->output, "text or json")->check(CLI::IsMember({"text", "json"}));
  command->add_option("--timeout", options->seconds, "Seconds to wait for the host (default 30)")->check(CLI::Range(1, 3600));
  command->footer(
      "Examples:\n  swivel doctor llama-server\n  swivel doctor /usr/lib/x86_64-linux-gnu/libllama.so\n"
      "  swivel doctor ~/venv/lib/python3.11/site-packages/llama_cpp\n"
      "Exit status 0: accepted; 1: refused. The host's libraries are loaded in a process of their own; a program is started once with\n"
      "--list-devices.");
  command->callback([options, exit_code] { *exit_code = Doctor(*options); });
}

}  // namespace swivel::cli
