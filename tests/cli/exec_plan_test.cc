#include "cli/exec_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cache/spec.h"

namespace swivel::cli {
namespace {

constexpr const char* kPlugin = "/opt/lib/libggml-swivel.so";

StatusOr<ExecPlan> Plan(std::vector<std::string> command, std::map<std::string, std::string> environment = {}, std::string kv = "") {
  return PlanExec({std::move(kv), std::move(command), std::move(environment), kPlugin});
}

// The words after the program, joined.
std::string Args(const ExecRun& run) {
  std::string text;
  for (size_t i = 1; i < run.argv.size(); ++i) text += (i > 1 ? " " : "") + run.argv[i];
  return text;
}

std::string Variable(const ExecRun& run, const std::string& name) {
  for (const auto& [key, value] : run.set) {
    if (key == name) return value;
  }
  return "(not set)";
}

void ExpectError(const StatusOr<ExecPlan>& plan, const std::vector<std::string>& parts) {
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
  for (const std::string& part : parts) {
    EXPECT_NE(plan.status().message().find(part), std::string::npos) << "'" << part << "' is not in: " << plan.status().message();
  }
}

const ExecRun& Only(const StatusOr<ExecPlan>& plan) {
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan.value().runs.size(), 1u);
  return plan.value().runs[0];
}

TEST(ExecPlan, TheCommandPeopleKnow) {
  const auto plan = Plan({"llama-server", "-m", "m.gguf", "--cache-type-k", "turbo3", "--cache-type-v", "turbo4", "-c", "262144"});
  const ExecRun& run = Only(plan);
  EXPECT_EQ(run.spec, "k=turbo3,v=turbo4");
  EXPECT_EQ(Args(run), "--device SWIVEL -fa on -ngl 999 -m m.gguf -c 262144");
  EXPECT_EQ(Variable(run, "GGML_BACKEND_PATH"), kPlugin);
  EXPECT_EQ(Variable(run, "SWIVEL_KV"), "k=turbo3,v=turbo4");
  // Both would make llama.cpp warn that one replaces the other.
  EXPECT_EQ(Variable(run, "LLAMA_ARG_DEVICE"), "(not set)");
}

TEST(ExecPlan, SpellingsOfTheOptions) {
  const std::vector<std::vector<std::string>> spellings = {
      {"-ctk", "turbo3", "-ctv", "turbo4"},
      {"--cache-type-k=turbo3", "--cache-type-v=turbo4"},
      {"--cache_type_k", "turbo3", "--cache_type_v=turbo4"},
      {"--kv", "k=turbo3,v=turbo4"},
      {"--kv=k=turbo3,v=turbo4"},
      {"-ctk", "turbo2", "-ctk", "turbo3", "-ctv", "turbo4"},  // the last one counts
  };
  for (std::vector<std::string> words : spellings) {
    words.insert(words.begin(), "/usr/bin/llama-cli");
    const auto plan = Plan(words);
    EXPECT_EQ(Only(plan).spec, "k=turbo3,v=turbo4") << words[1];
    EXPECT_EQ(Args(Only(plan)), "--device SWIVEL -fa on -ngl 999") << words[1];
  }
}

TEST(ExecPlan, ABackendInThePathIsChained) {
  const auto plan = Plan({"llama-cli"}, {{"GGML_BACKEND_PATH", "/other.so"}});
  EXPECT_EQ(Variable(Only(plan), "GGML_BACKEND_PATH"), kPlugin);
  EXPECT_EQ(Variable(Only(plan), "SWIVEL_NEXT"), "/other.so");
  ASSERT_EQ(plan.value().notes.size(), 1u);
  EXPECT_NE(plan.value().notes[0].find("/other.so"), std::string::npos);
  EXPECT_EQ(Variable(Only(Plan({"llama-cli"}, {{"GGML_BACKEND_PATH", kPlugin}})), "SWIVEL_NEXT"), "(not set)");
}

TEST(ExecPlan, OptionsInFrontAreOurs) {
  ExpectError(Plan({"-ctk", "turbo3", "llama-cli"}), {"-ctk: not an option of `swivel exec`"});
  ExpectError(Plan({}), {"which program?"});
}

TEST(ExecPlan, TheOtherSideStaysF16) {
  EXPECT_EQ(Only(Plan({"llama-cli", "-ctk", "turbo3"})).spec, "k=turbo3,v=f16");
  EXPECT_EQ(Only(Plan({"llama-cli", "-ctv", "turbo3"})).spec, "k=f16,v=turbo3");
}

TEST(ExecPlan, SpecFromTheEnvironmentAndTheDefault) {
  EXPECT_EQ(Only(Plan({"llama-cli"}, {{"SWIVEL_KV", "turbo2"}})).spec, "k=turbo2,v=turbo2");
  EXPECT_EQ(Only(Plan({"llama-cli"})).spec, ParseSpec(kDefaultSpec).value().ToString());
  const auto replaced = Plan({"llama-cli", "-ctk", "turbo3"}, {{"SWIVEL_KV", "turbo2"}});
  EXPECT_EQ(Only(replaced).spec, "k=turbo3,v=f16");
  EXPECT_EQ(replaced.value().notes.size(), 1u);
  ExpectError(Plan({"llama-cli"}, {{"SWIVEL_KV", "nonsense"}}), {"SWIVEL_KV", "nonsense"});
}

TEST(ExecPlan, TypesInTheEnvironmentAreTakenOut) {
  const auto plan = Plan({"llama-server"}, {{"LLAMA_ARG_CACHE_TYPE_K", "turbo3"}, {"LLAMA_ARG_CACHE_TYPE_V", "q8_0"}});
  EXPECT_EQ(Only(plan).spec, "k=turbo3,v=q8_0");
  EXPECT_EQ(Only(plan).unset, (std::vector<std::string>{"LLAMA_ARG_CACHE_TYPE_K", "LLAMA_ARG_CACHE_TYPE_V"}));
}

TEST(ExecPlan, StockTypesRunThroughSwivel) {
  const auto plan = Plan({"llama-server", "-ctk", "q8_0", "-ctv", "q4_0"});
  EXPECT_EQ(Only(plan).spec, "k=q8_0,v=q4_0");
  ASSERT_EQ(plan.value().notes.size(), 1u);
  EXPECT_NE(plan.value().notes[0].find("Swivel's own codecs"), std::string::npos);
  EXPECT_TRUE(Plan({"llama-server", "-ctk", "q8_0", "-ctv", "turbo4"}).value().notes.empty());
  ExpectError(Plan({"llama-server", "-ctk", "q5_1", "-ctv", "turbo4"}), {"-ctk q5_1", "turbo4", "without `swivel exec`"});
}

TEST(ExecPlan, MisspeltTypes) {
  ExpectError(Plan({"llama-server", "-ctk", "trubo3"}), {"-ctk trubo3", "did you mean turbo3?", "turbo4", "iq4_nl"});
  ExpectError(Plan({"llama-server", "-ctv", "Q8_0"}), {"did you mean q8_0?"});
  ExpectError(Plan({"llama-server", "-ctv", "xyzzy12345"}), {"no such cache type", "Swivel has"});
  ExpectError(Plan({"llama-server", "-ctk", ""}), {"no such cache type"});
  ExpectError(Plan({"llama-server", "-m", "x", "-ctk"}), {"-ctk needs a type"});
  ExpectError(Plan({"llama-server", "-ctk", "turbo3,turbo4"}), {"lists are for llama-bench"});
  ExpectError(Plan({"llama-server", "--kv", "k=turbo9"}), {"--kv", "turbo9"});
  ExpectError(Plan({"llama-server", "--kv", "turbo3", "-ctk", "turbo3"}), {"give one of them"});
  ExpectError(Plan({"llama-server", "--kv", "turbo3"}, {}, "turbo4"), {"given twice"});
  ExpectError(Plan({"llama-server", "-ctkd", "turbo3"}), {"-ctkd", "q8_0"});
}

TEST(ExecPlan, WhatTheUserSaysStays) {
  EXPECT_EQ(Args(Only(Plan({"llama-cli", "-fa", "auto", "-ngl", "all", "--device", "SWIVEL"}))), "-fa auto -ngl all --device SWIVEL");
  EXPECT_EQ(Args(Only(Plan({"llama-cli", "--flash-attn=1", "--n-gpu-layers=99", "-dev", "SWIVEL"}))),
            "--flash-attn=1 --n-gpu-layers=99 -dev SWIVEL");
  EXPECT_EQ(Args(Only(Plan({"llama-cli"}, {{"LLAMA_ARG_DEVICE", "SWIVEL"}, {"LLAMA_ARG_N_GPU_LAYERS", "99"}}))), "-fa on");
}

TEST(ExecPlan, NothingIsBypassedInSilence) {
  ExpectError(Plan({"llama-cli", "-fa", "off"}), {"-fa off"});
  ExpectError(Plan({"llama-cli", "--flash-attn=0"}), {"-fa 0"});
  ExpectError(Plan({"llama-cli", "-ngl", "0"}), {"-ngl 0"});
  ExpectError(Plan({"llama-cli", "-nkvo"}), {"-nkvo"});
  ExpectError(Plan({"llama-cli", "--device", "CUDA0"}), {"--device CUDA0", "SWIVEL"});
  ExpectError(Plan({"llama-cli", "--rpc", "10.0.0.1:50052"}), {"--rpc", "swivel exec rpc-server"});
  ExpectError(Plan({"llama-cli"}, {{"LLAMA_ARG_DEVICE", "none"}}), {"none"});
  ExpectError(Plan({"llama-cli"}, {{"LLAMA_ARG_FLASH_ATTN", "off"}}), {"-fa off"});
  ExpectError(Plan({"llama-cli"}, {{"LLAMA_ARG_NO_KV_OFFLOAD", "1"}}), {"-nkvo"});
  ExpectError(Plan({"llama-cli"}, {{"LLAMA_ARG_KV_OFFLOAD", "0"}}), {"LLAMA_ARG_KV_OFFLOAD"});
  EXPECT_EQ(Plan({"llama-cli", "-ngl", "10"}).value().notes.size(), 1u);
  EXPECT_EQ(Plan({"llama-cli", "--device", "CUDA0,SWIVEL"}).value().notes.size(), 1u);
}

TEST(ExecPlan, BackendPathInUse) {
  ExpectError(Plan({"llama-cli"}, {{"GGML_BACKEND_PATH", "/other.so"}, {"SWIVEL_NEXT", "/third.so"}}),
              {"GGML_BACKEND_PATH is set to /other.so and SWIVEL_NEXT to /third.so"});
  EXPECT_TRUE(Plan({"llama-cli"}, {{"GGML_BACKEND_PATH", kPlugin}}).ok());
}

TEST(ExecPlan, BenchRunsOnceForEachPair) {
  const auto plan = Plan({"llama-bench", "-m", "m", "-ctk", "turbo3,turbo4", "-ctv", "turbo4", "-ctv", "f16", "-d", "0,4096"});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  std::vector<std::string> specs;
  for (const ExecRun& run : plan.value().runs) {
    specs.push_back(run.spec);
    EXPECT_EQ(Args(run), "-dev SWIVEL -fa 1 -ngl 999 -m m -d 0,4096");
  }
  EXPECT_EQ(specs, (std::vector<std::string>{"k=turbo3,v=turbo4", "k=turbo3,v=f16", "k=turbo4,v=turbo4", "k=turbo4,v=f16"}));
}

TEST(ExecPlan, BenchOptions) {
  EXPECT_EQ(Args(Only(Plan({"llama-bench", "-fa", "1", "-ngl", "99", "-ctk", "turbo3"}))), "-dev SWIVEL -fa 1 -ngl 99");
  ExpectError(Plan({"llama-bench", "-fa", "0,1"}), {"-fa 0"});
  ExpectError(Plan({"llama-bench", "-ngl", "99,0"}), {"-ngl 0"});
  ExpectError(Plan({"llama-bench", "-nkvo", "0,1"}), {"-nkvo 1"});
  EXPECT_TRUE(Plan({"llama-bench", "-nkvo", "0"}).ok());
  ExpectError(Plan({"llama-bench", "-dev", "CUDA0"}), {"-dev CUDA0"});
  ExpectError(Plan({"llama-bench", "-ctk", "turbo3,turbo"}), {"-ctk turbo:"});
  // The one-program build.
  EXPECT_EQ(Args(Only(Plan({"llama", "bench", "-ctk", "turbo3"}))), "bench -dev SWIVEL -fa 1 -ngl 999");
  EXPECT_EQ(Args(Only(Plan({"llama", "serve", "-ctk", "turbo3"}))), "serve --device SWIVEL -fa on -ngl 999");
}

TEST(ExecPlan, RpcServerGetsTheEnvironmentOnly) {
  const auto plan = Plan({"ggml-rpc-server", "-p", "50052", "--kv", "turbo3"});
  EXPECT_EQ(Args(Only(plan)), "-p 50052");
  EXPECT_EQ(Variable(Only(plan), "SWIVEL_KV"), "k=turbo3,v=turbo3");
}

TEST(ExecPlan, OtherProgramsKeepTheirArguments) {
  const auto plan = Plan({"python3", "script.py", "--kv", "mine", "-ctk", "mine"}, {}, "turbo3");
  EXPECT_EQ(Args(Only(plan)), "script.py --kv mine -ctk mine");
  EXPECT_EQ(Variable(Only(plan), "SWIVEL_KV"), "k=turbo3,v=turbo3");
  EXPECT_EQ(Variable(Only(plan), "SWIVEL_PLUGIN"), kPlugin);
  EXPECT_EQ(Variable(Only(plan), "LLAMA_ARG_DEVICE"), "SWIVEL");
  // A renamed llama-server is known by its options.
  EXPECT_EQ(Args(Only(Plan({"./my-server", "-ctk", "turbo3", "-m", "x"}))), "--device SWIVEL -fa on -ngl 999 -m x");
}

TEST(ExecPlan, ProgramsBehindStarters) {
  EXPECT_EQ(Args(Only(Plan({"nice", "-n", "5", "llama-server", "-ctk", "turbo3"}))), "-n 5 llama-server --device SWIVEL -fa on -ngl 999");
  EXPECT_EQ(Plan({"sudo", "llama-server"}).value().notes.size(), 1u);
  EXPECT_EQ(Args(Only(Plan({"nice", "true"}))), "true");
}

TEST(ExecPlan, ShellText) {
  ExecRun run;
  run.argv = {"llama-cli", "-p", "it's $HOME", ""};
  run.set = {{"SWIVEL_KV", "k=turbo3,v=turbo4"}};
  EXPECT_EQ(run.ToShell(), "SWIVEL_KV=k=turbo3,v=turbo4 llama-cli -p 'it'\\''s $HOME' ''");
  run.unset = {"LLAMA_ARG_CACHE_TYPE_K"};
  EXPECT_EQ(run.ToShell().substr(0, 32), "env -u LLAMA_ARG_CACHE_TYPE_K SW");
}

TEST(NearestName, FindsTyposOnly) {
  const std::vector<std::string> names = {"turbo2", "turbo3", "q8_0"};
  EXPECT_EQ(NearestName("tubro3", names), "turbo3");
  EXPECT_EQ(NearestName("TURBO2", names), "turbo2");
  EXPECT_EQ(NearestName("q8", names), "q8_0");
  EXPECT_EQ(NearestName("something", names), "");
}

}  // namespace
}  // namespace swivel::cli
