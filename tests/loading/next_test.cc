// SWIVEL_NEXT: a second backend through the one path that a host reads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "harness.h"

namespace swivel::plugin_test {
namespace {

// Loads the plugin with SWIVEL_NEXT set; empty when it was loaded before (ctest runs every test in its own process).
std::string LoadWithNext(const std::string& path) {
  if (ggml_backend_reg_by_name("SWIVEL") != nullptr) return "";
  setenv("SWIVEL_NEXT", path.c_str(), 1);
  const std::string said = CaptureStderr([] { EXPECT_NE(ggml_backend_load(SWIVEL_PLUGIN_FILE), nullptr); });
  unsetenv("SWIVEL_NEXT");
  return said;
}

TEST(Next, LoadsAnotherBackend) {
  EXPECT_EQ(ggml_backend_dev_by_name("DUMMY"), nullptr);
  const std::string said = LoadWithNext(SWIVEL_DUMMY_BACKEND);
  if (said.empty()) GTEST_SKIP() << "loaded already";
  EXPECT_NE(said.find("swivel: backend DUMMY with 1 device is loaded from SWIVEL_NEXT=" SWIVEL_DUMMY_BACKEND "\n"), std::string::npos)
      << said;
  EXPECT_NE(ggml_backend_dev_by_name("DUMMY"), nullptr);
  EXPECT_NE(ggml_backend_dev_by_name("SWIVEL"), nullptr);
}

TEST(Next, AMissingFileIsSaidAndOursStays) {
  const std::string said = LoadWithNext("/nowhere/libggml-other.so");
  if (said.empty()) GTEST_SKIP() << "loaded already";
  EXPECT_NE(said.find("swivel: SWIVEL_NEXT=/nowhere/libggml-other.so is not loaded: there is no such file"), std::string::npos) << said;
  EXPECT_NE(ggml_backend_dev_by_name("SWIVEL"), nullptr);
}

TEST(Next, AFileThatIsNoBackendIsSaidAndOursStays) {
  const std::string said = LoadWithNext("/proc/self/exe");
  if (said.empty()) GTEST_SKIP() << "loaded already";
  EXPECT_NE(said.find("swivel: SWIVEL_NEXT=/proc/self/exe is not loaded: the host's ggml refused it"), std::string::npos) << said;
  EXPECT_NE(ggml_backend_dev_by_name("SWIVEL"), nullptr);
}

TEST(Next, ThePluginItselfIsNoNextBackend) {
  const std::string said = LoadWithNext(SWIVEL_PLUGIN_FILE);
  if (said.empty()) GTEST_SKIP() << "loaded already";
  EXPECT_NE(said.find("is not loaded: it names this plugin"), std::string::npos) << said;
  EXPECT_NE(ggml_backend_dev_by_name("SWIVEL"), nullptr);
}

}  // namespace
}  // namespace swivel::plugin_test
