// SWIVEL_LOG=FILE records what happens, a JSON object a line; the report and the last line of a context count it.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness.h"

namespace swivel::plugin_test {
namespace {

using Json = nlohmann::json;

// Tests that load the plugin themselves need a process of their own, as ctest gives them.
class EventLog : public testing::Test {
 protected:
  void SetUp() override {
    if (ggml_backend_reg_by_name("SWIVEL") != nullptr) GTEST_SKIP() << "loaded already";
    path_ = std::filesystem::temp_directory_path() / ("swivel-events-" + std::to_string(getpid()) + ".jsonl");
    std::filesystem::remove(path_);
  }
  void TearDown() override {
    unsetenv("SWIVEL_LOG");
    std::filesystem::remove(path_);
  }
  std::vector<Json> Events(const std::string& name = "") const {
    std::vector<Json> events;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      Json event = Json::parse(line);
      EXPECT_EQ(event["pid"], getpid());
      EXPECT_EQ(event["time"].get<std::string>().size(), std::string("2026-01-01T00:00:00.000Z").size());
      if (name.empty() || event["event"] == name) events.push_back(event);
    }
    return events;
  }
  std::filesystem::path path_;
};

Shape SmallShape() {
  Shape shape;
  shape.num_cells = 512;
  return shape;
}

// Fills 400 cells in batches of 100, so that groups leave the window.
void Fill(const Cache& cache) {
  Runner runner(PluginDevice());
  for (int first = 0; first < 400; first += 100)
    runner.Attend(cache, MakeBatch(cache.shape, 100, first, 0, 1, 7u + static_cast<uint32_t>(first)));
}

TEST_F(EventLog, TheLifeOfAContext) {
  setenv("SWIVEL_LOG", path_.c_str(), 1);
  std::string said;
  {
    said = CaptureStderr([] { PluginRegistry(); });
    EXPECT_EQ(said.find("[kv]"), std::string::npos) << "a file does not switch the list of operations on";
    SetKv("tcq3,transform=wht,window=0");
    std::optional<Cache> cache(std::in_place, PluginBufferType(), SmallShape());
    said = CaptureStderr([&] {
      Fill(*cache);
      const std::vector<uint8_t> state = GetBytes(cache->k[0]);
      ggml_backend_tensor_set(cache->k[0], state.data(), 0, state.size());
      Runner(PluginDevice()).Attend(*cache, MakeBatch(cache->shape, 1, 400, 0, 1, 3));
      cache.reset();
    });
  }
  const std::vector<Json> loaded = Events("loaded");
  ASSERT_EQ(loaded.size(), 1u);
  EXPECT_EQ(loaded[0]["version"], "0.1.0");
  EXPECT_EQ(loaded[0]["ggml"], ggml_version());
  const std::vector<Json> created = Events("cache_created");
  ASSERT_EQ(created.size(), 1u);
  EXPECT_EQ(created[0]["tensors"], 4);
  const std::vector<Json> restored = Events("state_restored");
  ASSERT_EQ(restored.size(), 1u);
  EXPECT_EQ(restored[0]["rows"], 512);
  const std::vector<Json> end = Events("context_end");
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(end[0]["rows_written"], 2 * 2 * 401) << "K and V of two layers";
  EXPECT_EQ(end[0]["rows_restored"], 512);
  EXPECT_EQ(end[0]["rows_read"], 512);
  EXPECT_EQ(end[0]["groups_packed"], 2 * 3) << "three full groups in two layers";
  EXPECT_EQ(end[0]["packed_cells"], 2 * 3 * 128);
  EXPECT_NE(said.find("ends: 1604 rows written, 512 restored, 6 groups packed, 0 decayed; "), std::string::npos) << said;
  EXPECT_EQ(end[0]["text"].get<std::string>(), said.substr(said.find("KV cache of context"), end[0]["text"].get<std::string>().size()));
}

TEST_F(EventLog, ABasisThatIsMadeIsAnEventOfEveryContext) {
  setenv("SWIVEL_LOG", path_.c_str(), 1);
  PluginRegistry();
  SetKv("balanced,calibration=self:128");
  for (int context = 0; context < 2; ++context) {
    Cache cache(PluginBufferType(), SmallShape());
    Fill(cache);
  }
  const std::vector<Json> frozen = Events("basis_frozen");
  ASSERT_EQ(frozen.size(), 2u);
  EXPECT_EQ(frozen[0]["layers"], 2);
  EXPECT_EQ(frozen[0]["text"], "keys are packed in a basis made from the first 128 tokens");
  EXPECT_NE(frozen[0]["context"], frozen[1]["context"]);
}

TEST_F(EventLog, RefusalsAndWarnings) {
  setenv("SWIVEL_LOG", path_.c_str(), 1);
  PluginRegistry();
  Shape shape;
  shape.type = GGML_TYPE_Q8_0;
  EXPECT_EQ(Cache(PluginBufferType(), shape).buffer, nullptr);
  const std::vector<Json> refused = Events("refused");
  ASSERT_EQ(refused.size(), 2u) << "K and V";
  EXPECT_NE(refused[0]["text"].get<std::string>().find("-ctk q8_0 cannot be combined"), std::string::npos);
}

TEST_F(EventLog, ARefusedLoadIsRecorded) {
  setenv("SWIVEL_LOG", path_.c_str(), 1);
  setenv("SWIVEL_KV", "turbo\"99", 1);
  EXPECT_EQ(ggml_backend_load(SWIVEL_PLUGIN_FILE), nullptr);
  unsetenv("SWIVEL_KV");
  const std::vector<Json> refused = Events("refused");
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_NE(refused[0]["text"].get<std::string>().find("turbo\"99"), std::string::npos);
}

TEST_F(EventLog, AnUnwritableFileRefusesTheLoad) {
  setenv("SWIVEL_LOG", "/nowhere/events", 1);
  const std::string said = CaptureStderr([] { EXPECT_EQ(ggml_backend_load(SWIVEL_PLUGIN_FILE), nullptr); });
  EXPECT_NE(
      said.find(
          "swivel: not loaded: SWIVEL_LOG=/nowhere/events cannot be opened for appending: No such file or directory; it names a file"),
      std::string::npos)
      << said;
}

TEST_F(EventLog, AFullDiskIsSaidOnceAndTheHostRunsOn) {
  setenv("SWIVEL_LOG", "/dev/full", 1);
  const std::string said = CaptureStderr([] {
    PluginRegistry();
    Cache cache(PluginBufferType(), SmallShape());
    Fill(cache);
  });
  const std::string line = "swivel: SWIVEL_LOG cannot be written (No space left on device)";
  const size_t at = said.find(line);
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find(line, at + 1), std::string::npos) << said;
}

TEST_F(EventLog, OneAndStderrListOperations) {
  setenv("SWIVEL_LOG", "stderr", 1);
  PluginRegistry();
  const std::string said = CaptureStderr([] {
    Cache cache(PluginBufferType(), SmallShape());
    Fill(cache);
  });
  EXPECT_NE(said.find("swivel [kv] SET_ROWS"), std::string::npos) << said;
  EXPECT_FALSE(std::filesystem::exists("stderr"));
}

TEST(Report, CountsRowsAndIsJson) {
  SetKv("turbo4");
  Cache cache(PluginBufferType(), SmallShape());
  Fill(cache);
  const Json report = Json::parse(Report());
  const Json& own = report["caches"].back();
  EXPECT_EQ(own["rows_written"], 2 * 2 * 400);
  EXPECT_EQ(own["rows_restored"], 0);
  GetBytes(cache.v[1]);
  EXPECT_EQ(Json::parse(Report())["caches"].back()["rows_read"], 512);
}

// For programs without ggml at hand; also before any host has loaded the plugin.
TEST(Report, IsExported) {
  void* plugin = dlopen(SWIVEL_PLUGIN_FILE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(plugin, nullptr) << dlerror();
  auto* report = reinterpret_cast<size_t (*)(char*, size_t)>(dlsym(plugin, "swivel_report"));
  ASSERT_NE(report, nullptr);
  if (ggml_backend_reg_by_name("SWIVEL") == nullptr) {
    char text[64] = "";
    EXPECT_EQ(report(text, sizeof(text)), std::string("{\"loaded\":false}").size());
    EXPECT_STREQ(text, "{\"loaded\":false}");
  }
  PluginRegistry();
  std::string text(report(nullptr, 0) + 1, '\0');
  report(text.data(), text.size());
  EXPECT_TRUE(Json::parse(text.c_str()).contains("caches")) << text;
}

// A context that the program never frees is reported when the process exits.
TEST(Exit, SaysTheTotals) {
  EXPECT_EXIT(
      {
        PluginRegistry();
        SetKv("turbo4");
        auto* cache = new Cache(PluginBufferType(), SmallShape());
        Fill(*cache);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "swivel: KV cache of context [0-9]+ ends: 1600 rows written; ");
}

}  // namespace
}  // namespace swivel::plugin_test
