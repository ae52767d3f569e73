#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>

#include "cli/doctor_elf.h"
#include "cli/doctor_process.h"

namespace swivel::cli {
namespace {

TEST(RunProgram, CapturesBothStreamsAndTheStatus) {
  const ChildResult result = RunProgram({"/bin/sh", "-c", "echo out; echo err >&2; echo $WORD; exit 3"}, {{{"WORD", "set"}}, {}}, 10);
  EXPECT_EQ(result.out, "out\nset\n");
  EXPECT_EQ(result.err, "err\n");
  EXPECT_EQ(result.exit_status, 3);
  EXPECT_EQ(result.HowItEnded(), "exit status 3");
}

TEST(RunProgram, StopsWhatHangsWithItsChildren) {
  const auto begin = std::chrono::steady_clock::now();
  // The grandchild holds the pipes; reading to the end would take a minute.
  const ChildResult result = RunProgram({"/bin/sh", "-c", "sleep 60 & sleep 60"}, {}, 1);
  EXPECT_TRUE(result.timed_out);
  const ChildResult left = RunProgram({"/bin/sh", "-c", "sleep 60 & exit 0"}, {}, 10);
  EXPECT_TRUE(left.Succeeded());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(RunProgram, MissingPrograms) { EXPECT_EQ(RunProgram({"/nowhere/program"}, {}, 5).exit_status, 127); }

TEST(RunProgram, FloodsAreCutNotStuck) {
  const ChildResult result = RunProgram({"/bin/sh", "-c", "head -c 5000000 /dev/zero"}, {}, 30);
  EXPECT_TRUE(result.Succeeded());
  EXPECT_GE(result.out.size(), kMaxChildOutput);
  EXPECT_LT(result.out.size(), kMaxChildOutput + 10000);
}

TEST(RunInChild, SurvivesACrash) {
  const ChildResult result = RunInChild(
      []() -> int {
        std::printf("before\n");
        std::fflush(stdout);
        std::raise(SIGKILL);  // not SIGSEGV: sanitizers catch that
        return 0;
      },
      10);
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_EQ(result.out, "before\n");
  EXPECT_NE(result.HowItEnded().find("crashed"), std::string::npos);
}

TEST(ReadElf, TellsProgramsFromLibraries) {
  const ElfFile self = ReadElf("/proc/self/exe", {}).value();
  EXPECT_TRUE(self.native);
  EXPECT_TRUE(self.IsProgram());
  EXPECT_FALSE(self.IsStaticProgram());
  EXPECT_FALSE(self.needed.empty());

  const ElfFile library = ReadElf(std::string(SWIVEL_LLAMA_LIB) + "/libggml.so", {"ggml_backend_load", "ggml_nbytes"}).value();
  EXPECT_FALSE(library.IsProgram());
  EXPECT_TRUE(library.Defines("ggml_backend_load"));
  EXPECT_FALSE(library.Defines("ggml_nbytes"));  // that one is in libggml-base
}

TEST(ReadElf, RefusesWhatIsNotElf) {
  EXPECT_EQ(ReadElf("/nowhere", {}).status().code(), StatusCode::kIo);
  EXPECT_EQ(ReadElf("/", {}).status().code(), StatusCode::kIo);
  EXPECT_EQ(ReadElf("/etc/passwd", {}).status().code(), StatusCode::kInvalidArgument);
}

// Random damage in the first kilobytes and truncation: any answer will do.
TEST(ReadElf, SurvivesMutation) {
  std::ifstream file(std::string(SWIVEL_LLAMA_LIB) + "/libggml.so", std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string path = testing::TempDir() + std::to_string(getpid()) + "mutant.so";
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string bytes = good;
    for (int i = 0; i < 6; ++i) bytes[random() % 1024] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    bytes.replace(0, 4, "\177ELF");
    std::ofstream(path, std::ios::binary) << bytes;
    (void)ReadElf(path, {"ggml_backend_load"});
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace swivel::cli
