// What the plugin does with the model that is mapped into the process: store=FILE, and the warning for keys with a bias.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "calibrate/calibration_file.h"
#include "harness.h"
#include "llama/test_model.h"

namespace swivel::plugin_test {
namespace {

namespace fs = std::filesystem;

// A model of a few kilobytes, mapped as llama.cpp maps models. The plugin finds it in the list of mappings; nothing is computed with it.
class MappedModel {
 public:
  MappedModel(const std::string& name, uint32_t head_width, const std::vector<std::string>& more_tensors = {}) {
    TinyModel model("llama");
    model.Number("attention.head_count", 2);
    model.Number("attention.head_count_kv", 1);
    model.Number("attention.key_length", head_width);
    for (const std::string& tensor : more_tensors) model.Tensor(tensor, {64});
    path_ = model.Write(name);
    const int file = open(path_.c_str(), O_RDONLY);
    size_ = fs::file_size(path_);
    memory_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    EXPECT_NE(memory_, MAP_FAILED);
    close(file);
  }
  ~MappedModel() {
    munmap(memory_, size_);
    fs::remove(path_);
  }

 private:
  std::string path_;
  size_t size_ = 0;
  void* memory_ = nullptr;
};

class Store : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("swivel-store-" + std::to_string(getpid()));
    fs::create_directories(folder_);
    shape_.num_cells = 768;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string File() const { return (folder_ / "kept.swivel").string(); }
  std::string Bytes() const {
    std::ifstream file(File(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  struct Result {
    std::string said;
    bool refused = false;       // a host then has no context
    std::vector<uint8_t> keys;  // of layer 1, read back
    nlohmann::json report;
  };
  // A prompt of 600 tokens in a new context.
  Result Run(const std::string& more = "", uint32_t seed = 5) {
    Result result;
    result.said = CaptureStderr([&] {
      EXPECT_EQ(SetKv("balanced,window=0,calibration=self:128,store=" + File() + more), "");
      Cache cache(PluginBufferType(), shape_);
      Runner runner(PluginDevice());
      int done = 0;
      for (int size : {135, 5, 360, 100, 1}) {
        if (runner.Attend(cache, MakeBatch(shape_, size, done, 0, 1, seed + static_cast<uint32_t>(done))).empty()) {
          result.refused = true;
          return;
        }
        done += size;
      }
      result.keys = GetBytes(cache.k[1]);
      result.report = nlohmann::json::parse(Report())["caches"][0];
    });
    return result;
  }

  Shape shape_;
  fs::path folder_;
};

TEST_F(Store, TheNextRunHasTheSameBasisAtOnce) {
  MappedModel model("kept", 64);
  const Result first = Run();
  EXPECT_NE(first.said.find("made from the first 128 tokens"), std::string::npos) << first.said;
  EXPECT_NE(first.said.find("kept in " + File()), std::string::npos) << first.said;
  ASSERT_TRUE(fs::exists(File()));
  StatusOr<Calibration> kept = ReadCalibration(File());
  ASSERT_TRUE(kept.ok()) << kept.status().message();
  EXPECT_TRUE(kept->self);
  EXPECT_EQ(kept->description, "self, 128 tokens");
  EXPECT_EQ(kept->num_tokens, 128);
  EXPECT_EQ(kept->layers.size(), 2u);

  const std::string bytes = Bytes();
  const Result second = Run();
  EXPECT_FALSE(first.refused || second.refused);
  EXPECT_NE(second.said.find("made from " + File() + " (self, 128 tokens)"), std::string::npos) << second.said;
  EXPECT_EQ(second.keys, first.keys);
  EXPECT_EQ(second.report["packed_cells"], first.report["packed_cells"]);
  EXPECT_GT(second.report["packed_cells"], 0);
  // Other tokens, the same basis: without it this run would end with another one, and with other keys.
  const Result with_file = Run("", 77);
  fs::rename(File(), File() + ".away");
  const Result without = Run("", 77);
  EXPECT_NE(with_file.keys, without.keys);
  EXPECT_EQ(bytes, [&] {
    std::ifstream away(File() + ".away", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(away), std::istreambuf_iterator<char>());
  }()) << "a run that reads it does not write it";
}

TEST_F(Store, AFileOfAnotherModelIsRefusedAndKept) {
  {
    MappedModel other("other", 32);
    Run();
  }
  ASSERT_TRUE(fs::exists(File()));
  const std::string bytes = Bytes();
  MappedModel model("mine", 64);
  const Result run = Run();
  EXPECT_TRUE(run.refused);
  EXPECT_NE(run.said.find("was written with another model (self, 128 tokens)"), std::string::npos) << run.said;
  EXPECT_EQ(run.said.find("kept in"), std::string::npos) << run.said;
  EXPECT_EQ(Bytes(), bytes);
}

TEST_F(Store, WhatIsNoFileOfStoreIsRefusedAndKept) {
  MappedModel model("mine", 64);
  Run();
  Calibration calibration = ReadCalibration(File()).value();
  calibration.self = false;
  const std::string good = Bytes(), damaged = good.substr(0, good.size() / 2);
  for (const auto& [content, reason] : {std::pair<std::string, const char*>{"notes of mine", "is not a calibration file"},
                                        {damaged, "is a damaged calibration file"},
                                        {CalibrationBytes(calibration), "was not written by store="}}) {
    std::ofstream(File(), std::ios::binary | std::ios::trunc) << content;
    const Result run = Run();
    EXPECT_TRUE(run.refused);
    EXPECT_NE(run.said.find(reason), std::string::npos) << run.said;
    EXPECT_NE(run.said.find("as it is"), std::string::npos) << run.said;
    EXPECT_EQ(Bytes(), content);
  }
  std::ofstream(File(), std::ios::binary | std::ios::trunc) << good;
  const Result run = Run(",group_mean=off");
  EXPECT_NE(run.said.find("was written with group_mean=on"), std::string::npos) << run.said;
  EXPECT_EQ(Bytes(), good);
}

// Two programs start together, or somebody puts a file there.
TEST_F(Store, AFileThatAppearsMeanwhileIsKept) {
  MappedModel model("mine", 64);
  const std::string said = CaptureStderr([&] {
    EXPECT_EQ(SetKv("balanced,window=0,calibration=self:128,store=" + File()), "");
    Cache cache(PluginBufferType(), shape_);
    Runner runner(PluginDevice());
    EXPECT_FALSE(runner.Attend(cache, MakeBatch(shape_, 135, 0, 0, 1, 1)).empty());
    std::ofstream(File()) << "mine";
    EXPECT_FALSE(runner.Attend(cache, MakeBatch(shape_, 1, 135, 0, 1, 2)).empty());
  });
  EXPECT_NE(said.find("is not kept: " + File() + ": exists already"), std::string::npos) << said;
  EXPECT_EQ(Bytes(), "mine");
}

TEST_F(Store, NothingIsKeptForAnUnknownModel) {
  const Result run = Run();
  EXPECT_NE(run.said.find("is neither read nor written: which model runs is not known"), std::string::npos) << run.said;
  EXPECT_FALSE(fs::exists(File()));
  EXPECT_GT(run.report["packed_cells"], 0);
}

TEST_F(Store, AFolderThatDoesNotExistIsSaid) {
  MappedModel model("mine", 64);
  fs::remove_all(folder_);
  const Result run = Run();
  EXPECT_NE(run.said.find("is not kept: " + File() + ": cannot be written"), std::string::npos) << run.said;
}

// Lines are said once in the life of a process, so each case has codecs of its own.
std::string SaidOf(const std::string& spec) {
  Shape shape;
  return CaptureStderr([&] {
    EXPECT_EQ(SetKv(spec), "");
    Cache cache(PluginBufferType(), shape);
    Runner runner(PluginDevice());
    EXPECT_FALSE(runner.Attend(cache, MakeBatch(shape, 2, 0, 0, 1, 1)).empty());
  });
}

TEST(KeyBias, IsWarnedOf) {
  MappedModel model("bias", 64, {"blk.0.attn_norm.weight", "blk.0.attn_k.bias"});
  const std::string said = SaidOf("turbo4");
  EXPECT_NE(said.find("WARNING"), std::string::npos) << said;
  for (const char* part : {"blk.0.attn_k.bias", "k=turbo4", "SWIVEL_KV=balanced", "k=q8_0"}) EXPECT_NE(said.find(part), std::string::npos) << said;
  EXPECT_EQ(said.find("WARNING"), said.rfind("WARNING")) << "one line for two layers: " << said;
  EXPECT_NE(SaidOf("balanced,transform=wht").find("transform=wht"), std::string::npos);
  for (const char* spec : {"balanced", "k=q8_0,v=turbo2", "kivi4"}) EXPECT_EQ(SaidOf(spec).find("WARNING"), std::string::npos) << spec;
}

TEST(KeyBias, OfAFusedTensorIsWarnedOf) {
  MappedModel model("fused", 64, {"blk.1.attn_qkv.bias"});
  EXPECT_NE(SaidOf("turbo3").find("blk.1.attn_qkv.bias"), std::string::npos);
}

TEST(KeyBias, AbsentIsNotWarnedOf) {
  MappedModel model("plain", 64, {"blk.0.attn_q.bias", "blk.0.attn_v.bias"});
  EXPECT_EQ(SaidOf("turbo2").find("WARNING"), std::string::npos);
}

}  // namespace
}  // namespace swivel::plugin_test
