// Every codec of keys with every codec of values: all are advertised, so all must run on packed rows and cost no more than their parts.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "codec/codec.h"
#include "harness.h"
#include "player.h"

namespace swivel::plugin_test {
namespace {

class Pairs {
 public:
  Pairs() : stock_(ggml_backend_cpu_buffer_type(), shape()) {
    expected_ = Play(stock_, Runner(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU), 1));
  }

  double Error(const std::string& k, const std::string& v) {
    EXPECT_EQ(SetKv("k=" + k + ",v=" + v), "");
    Cache cache(PluginBufferType(), shape());
    const auto got = Play(cache, Runner(PluginDevice(), 1));
    const auto report = nlohmann::json::parse(Report())["caches"][0];
    EXPECT_EQ(report["packed_tensors"], 2);
    EXPECT_EQ(report["flash_attention"], 3);
    EXPECT_EQ(report["shadow"], 0);
    return SpreadError(got, expected_);
  }

 private:
  static Shape shape() {
    Shape shape;
    shape.num_kv_heads = 1;
    shape.num_heads = 2;
    shape.num_layers = 1;
    return shape;
  }
  // A prompt that fills a group, a few tokens, one token.
  static std::vector<float> Play(const Cache& cache, Runner runner) {
    std::vector<float> all;
    for (const auto& [first, count] : {std::pair{0, 140}, {140, 8}, {148, 1}}) {
      const auto out = runner.Attend(cache, MakeBatch(shape(), count, first, 0, 1, static_cast<uint32_t>(first)));
      all.insert(all.end(), out.begin(), out.end());
    }
    return all;
  }

  Cache stock_;
  std::vector<float> expected_;
};

TEST(KvPairs, CostWhatTheirPartsCost) {
  ASSERT_NE(PluginRegistry(), nullptr);
  Pairs pairs;
  std::map<std::string, double> keys, values;
  for (const Codec* codec : AllCodecs()) {
    keys[codec->name] = pairs.Error(codec->name, "f16");
    values[codec->name] = pairs.Error("f16", codec->name);
  }
  EXPECT_LT(keys["f16"], 0.005);
  for (const Codec* k : AllCodecs()) {
    for (const Codec* v : AllCodecs()) {
      SCOPED_TRACE(std::string(k->name) + " with " + v->name);
      ASSERT_LT(pairs.Error(k->name, v->name), 1.25 * (keys[k->name] + values[v->name]) + 0.005);
    }
  }
}

double ResidentMiB() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  file >> pages >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

// Contexts come and go, prompts grow and shrink: what they took goes back.
TEST(Memory, DoesNotGrowWithTheRounds) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  ASSERT_EQ(SetKv("balanced,window=32,calibration=self:128"), "");
  const ModelPtr model = ModelKeys("llama", 64).Load(PluginDevice());
  Setting setting;
  setting.num_cells = 1024;
  Player p(model.get(), setting);
  std::mt19937 random(3);
  double after_ten = 0;
  for (int round = 1; round <= 60; ++round) {
    const int length = round <= 20 ? 30 * round : 64 + static_cast<int>(random() % 800);
    for (int done = 0; done < length; done += 128) p.Decode(0, done, std::min(128, length - done));
    p.logits = {};
    if (round % 3 == 0) p.StartAgain();
    llama_memory_clear(p.memory(), round % 2 == 0);
    if (round == 20) after_ten = ResidentMiB();
  }
  EXPECT_LT(ResidentMiB(), after_ten + 4);
}

}  // namespace
}  // namespace swivel::plugin_test
