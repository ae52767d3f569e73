// Hosts that are not the known ones are recognised by the structure of their tables, or refused with what is different.
#include "fake_host.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "ggml-backend-impl.h"
#include "harness.h"

namespace swivel::plugin_test {
namespace {

struct Outcome {
  ggml_backend_reg_t registry = nullptr;
  std::string said;
};

Outcome LoadInto(FakeHost host) {
  static FakeHost kept;  // the library keeps a pointer
  void* library = dlopen(SWIVEL_FAKE_HOST, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  kept = host;
  reinterpret_cast<void (*)(FakeHost*)>(dlsym(library, "fake_host_begin"))(&kept);
  Outcome outcome;
  outcome.said = CaptureStderr([&] { outcome.registry = kept.load(SWIVEL_PLUGIN_FILE); });
  return outcome;
}

// A plugin that is loaded stays so: these tests need a process of their own, as ctest gives them.
class NewHost : public testing::Test {
 protected:
  void SetUp() override {
    static bool loaded = false;
    if (loaded) GTEST_SKIP() << "the plugin is loaded already; ctest runs every test in its own process";
    loaded = true;
  }
  void ExpectRefused(const FakeHost& host, const std::string& reason) {
    const Outcome outcome = LoadInto(host);
    EXPECT_EQ(outcome.registry, nullptr);
    EXPECT_NE(outcome.said.find("swivel: not loaded: "), std::string::npos) << outcome.said;
    EXPECT_NE(outcome.said.find(reason), std::string::npos) << outcome.said;
  }
};

TEST_F(NewHost, TheKnownApiIsServed) {
  const Outcome outcome = LoadInto({});
  ASSERT_NE(outcome.registry, nullptr) << outcome.said;
  EXPECT_EQ(outcome.said.find("newer"), std::string::npos) << outcome.said;
}

TEST_F(NewHost, AHigherApiWithKnownTablesIsServed) {
  FakeHost host;
  host.api_version = 9;
  host.version = "1.2.3";
  const Outcome outcome = LoadInto(host);
  ASSERT_NE(outcome.registry, nullptr) << outcome.said;
  EXPECT_EQ(outcome.registry->api_version, 9) << "a host refuses another number than its own";
  EXPECT_NE(outcome.said.find("loaded into ggml 1.2.3 (backend API 9)"), std::string::npos) << outcome.said;
  EXPECT_NE(outcome.said.find("this API is newer than the plugin, its tables are those of API 3"), std::string::npos) << outcome.said;
}

// What the buffer type of the plugin looks like then is told by the host's own accessors.
TEST_F(NewHost, AHigherApiWithTheTablesOfApi2IsServed) {
  FakeHost host;
  host.api_version = 9;
  host.buffer_type_of_api2 = true;
  const Outcome outcome = LoadInto(host);
  ASSERT_NE(outcome.registry, nullptr) << outcome.said;
  EXPECT_NE(outcome.said.find("its tables are those of API 2"), std::string::npos) << outcome.said;
  ggml_backend_dev_t device = outcome.registry->iface.get_device(outcome.registry, 0);
  ggml_backend_buffer_type_t type = device->iface.get_buffer_type(device);
  void* library = dlopen(SWIVEL_FAKE_HOST, RTLD_NOW | RTLD_NOLOAD);
  EXPECT_EQ(reinterpret_cast<decltype(&ggml_backend_buft_get_alignment)>(dlsym(library, "ggml_backend_buft_get_alignment"))(type), 64u);
  EXPECT_EQ(reinterpret_cast<decltype(&ggml_backend_buft_get_device)>(dlsym(library, "ggml_backend_buft_get_device"))(type), device);
}

TEST_F(NewHost, AMovedEntryIsRefused) {
  FakeHost host;
  host.api_version = 9;
  host.is_host_slot = 8;
  ExpectRefused(host, "backend API 9 of ggml 0.26.0: entry is_host of the buffer type is number 8, known is 7");
}

TEST_F(NewHost, AKnownNumberWithOtherTablesIsRefused) {
  FakeHost host;
  host.api_version = 2;
  ExpectRefused(host, "backend API 2 of ggml 0.26.0 has the buffer type of API 3");
}

TEST_F(NewHost, AnOldApiIsRefused) {
  FakeHost host;
  host.api_version = 1;
  ExpectRefused(host, "backend API 1 of ggml 0.26.0 is too old; 2 and 3 are known");
}

TEST_F(NewHost, AnOldVersionIsRefused) {
  FakeHost host;
  host.version = "0.9.11";
  ExpectRefused(host, "ggml 0.9.11 is too old, 0.10.0 is needed");
}

TEST_F(NewHost, ALargerTensorIsRefused) {
  FakeHost host;
  host.tensor_bytes_more = 16;
  ExpectRefused(host, "the layout of ggml_tensor in ggml 0.26.0 is not known: it takes 352 bytes instead of 336");
}

TEST_F(NewHost, ALostOperationIsRefused) {
  FakeHost host;
  host.lost_operation = "FLASH_ATTN_EXT";
  ExpectRefused(host, "the host's ggml has no operation FLASH_ATTN_EXT");
}

TEST(TwoGgml, TheSecondIsRefused) {
  ASSERT_NE(PluginRegistry(), nullptr);
  const Outcome outcome = LoadInto({});
  EXPECT_EQ(outcome.registry, nullptr);
  EXPECT_NE(outcome.said.find("swivel: not loaded: the plugin serves the ggml of "), std::string::npos) << outcome.said;
  EXPECT_NE(outcome.said.find("fake_host.so is a second one and needs a process of its own"), std::string::npos) << outcome.said;
  EXPECT_EQ(ggml_backend_load(SWIVEL_PLUGIN_FILE), PluginRegistry()) << "the first one is served as before";
}

}  // namespace
}  // namespace swivel::plugin_test
