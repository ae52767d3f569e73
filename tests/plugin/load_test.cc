// How the plugin gets into a process, and what keeps it out.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "harness.h"

namespace swivel::plugin_test {
namespace {

TEST(Load, AnnouncesItselfOnceAndIsIdempotent) {
  if (ggml_backend_reg_by_name("SWIVEL") != nullptr) GTEST_SKIP() << "loaded by an earlier test; ctest runs every test in its own process";
  ggml_backend_reg_t registry = nullptr;
  const std::string said = CaptureStderr([&] { registry = ggml_backend_load(SWIVEL_PLUGIN_FILE); });
  ASSERT_NE(registry, nullptr);
  const std::string line = std::string("swivel 0.1.0: loaded into ggml ") + ggml_version() + " (backend API 3), kernels ";
  EXPECT_NE(said.find(line), std::string::npos) << said;
  EXPECT_NE(said.find(", kv k=tcq3,v=tcq3,transform=full,sinks=4,window=128 (the default: SWIVEL_KV is not set)\n"), std::string::npos) << said;
  const size_t devices = ggml_backend_dev_count();
  EXPECT_EQ(CaptureStderr([&] { EXPECT_EQ(ggml_backend_load(SWIVEL_PLUGIN_FILE), registry); }).find("swivel 0"), std::string::npos);
  EXPECT_EQ(ggml_backend_dev_count(), devices);
}

TEST(Load, Properties) {
  EXPECT_STREQ(ggml_backend_dev_name(PluginDevice()), "SWIVEL");
  EXPECT_EQ(ggml_backend_dev_type(PluginDevice()), GGML_BACKEND_DEVICE_TYPE_GPU);
  ggml_backend_dev_props props;
  ggml_backend_dev_get_props(PluginDevice(), &props);
  EXPECT_TRUE(props.caps.mmap_support);
  EXPECT_FALSE(props.caps.async || props.caps.host_buffer || props.caps.buffer_from_host_ptr || props.caps.events);
  EXPECT_FALSE(ggml_backend_buft_is_host(PluginBufferType()));
}

TEST(Load, ASecondCopyIsRefused) {
  PluginRegistry();
  const auto copy = std::filesystem::temp_directory_path() / ("libggml-swivel-copy-" + std::to_string(getpid()) + ".so");
  std::filesystem::copy_file(SWIVEL_PLUGIN_FILE, copy, std::filesystem::copy_options::overwrite_existing);
  const std::string said = CaptureStderr([&] { EXPECT_EQ(ggml_backend_load(copy.c_str()), nullptr); });
  std::filesystem::remove(copy);
  EXPECT_NE(said.find("swivel: not loaded: another copy of the plugin is loaded already\n"), std::string::npos) << said;
}

// Only a process in which the plugin is not loaded yet can show these; ctest runs every test in its own process.
std::string LoadWith(const char* variable, const char* value) {
  if (ggml_backend_reg_by_name("SWIVEL") != nullptr) return "";
  setenv(variable, value, 1);
  const std::string said = CaptureStderr([] { EXPECT_EQ(ggml_backend_load(SWIVEL_PLUGIN_FILE), nullptr); });
  unsetenv(variable);
  return said;
}

TEST(Load, ABadSpecIsRefused) {
  const std::string said = LoadWith("SWIVEL_KV", "turbo99");
  if (said.empty()) GTEST_SKIP() << "loaded already";
  EXPECT_NE(said.find("swivel: not loaded: SWIVEL_KV=turbo99: "), std::string::npos) << said;
}

TEST(Load, TheSpecMayBeAFile) {
  if (ggml_backend_reg_by_name("SWIVEL") != nullptr) GTEST_SKIP() << "loaded already";
  const auto folder = std::filesystem::temp_directory_path() / ("swivel-spec-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string file = (folder / "m.swivel.toml").string();
  std::ofstream(file) << "preset = \"small\"\nwindow = 64 # fewer\ncalibration = \"self:128\"\n[[layer]]\nrange = 1\nheads = \"0-1\"\nk = \"q8_0\"\n";
  setenv("SWIVEL_KV", file.c_str(), 1);
  const std::string said = CaptureStderr([] { EXPECT_NE(ggml_backend_load(SWIVEL_PLUGIN_FILE), nullptr); });
  const std::string spec = "k=tcq3,v=tcq2,layer=1/0-1:k=q8_0,transform=full,sinks=4,window=64,calibration=self:128";
  EXPECT_NE(said.find(", kv " + spec), std::string::npos) << said;
  EXPECT_NE(Report().find("\"kv\":\"" + spec + "\""), std::string::npos) << Report();
  // And caches are made by it.
  Shape shape;
  shape.num_cells = 512;
  Cache cache(PluginBufferType(), shape);
  Runner runner(PluginDevice());
  ASSERT_FALSE(runner.Attend(cache, MakeBatch(shape, 300, 0, 0, 1, 1)).empty());
  ASSERT_FALSE(runner.Attend(cache, MakeBatch(shape, 1, 300, 0, 1, 2)).empty());
  EXPECT_NE(Report().find("\"window_cells\":"), std::string::npos) << Report();
  EXPECT_EQ(Report().find("\"packed_cells\":0,"), std::string::npos) << Report();
  std::filesystem::remove_all(folder);
}

TEST(Load, AFileOfAWrongSpecIsRefused) {
  const std::string said = LoadWith("SWIVEL_KV", "/nowhere/m.toml");
  if (said.empty()) GTEST_SKIP() << "loaded already";
  EXPECT_NE(said.find("swivel: not loaded: SWIVEL_KV=/nowhere/m.toml: "), std::string::npos) << said;
}

TEST(Load, ABadTargetIsRefused) {
  const std::string said = LoadWith("SWIVEL_TARGET", "riscv");
  if (said.empty()) GTEST_SKIP() << "loaded already";
  EXPECT_NE(said.find("swivel: not loaded: "), std::string::npos) << said;
  EXPECT_NE(said.find("riscv"), std::string::npos) << said;
}

}  // namespace
}  // namespace swivel::plugin_test
