#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "gguf/fingerprint.h"
#include "gguf_builder.h"

namespace swivel::gguf {
namespace {

std::string Write(const std::string& name, const std::vector<uint8_t>& bytes) {
  const std::string path = testing::TempDir() + std::to_string(getpid()) + name;
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return path;
}

// A header, padding and data: `norm` is the value of every channel of both norms, which lie behind `weight_bytes` of other data.
std::vector<uint8_t> File(Builder builder, float norm, uint64_t weight_bytes) {
  const auto add = [&](const char* name, uint64_t extent, uint32_t type, uint64_t offset) { builder.Tensor(name, {extent}, type, offset); };
  add("blk.0.ffn_up.weight", weight_bytes, 24, 0);
  add("blk.0.attn_norm.weight", 128, 0, weight_bytes);
  add("output_norm.weight", 128, 0, weight_bytes + 512);
  std::vector<uint8_t> bytes = builder.Bytes();
  bytes.resize((bytes.size() + 31) / 32 * 32 + weight_bytes, 0xee);
  for (int i = 0; i < 256; ++i) {
    const auto* raw = reinterpret_cast<const uint8_t*>(&norm);
    bytes.insert(bytes.end(), raw, raw + 4);
  }
  return bytes;
}

Builder Model() { return Decoder("llama", 2, 128, 4, 2); }

uint64_t Fingerprint(const std::vector<uint8_t>& bytes) {
  const std::string path = Write("fingerprint.gguf", bytes);
  const StatusOr<uint64_t> result = ModelFingerprint(path);
  std::filesystem::remove(path);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? result.value() : 0;
}

TEST(Fingerprint, IsThatOfTheModelNotOfItsQuantisation) {
  const uint64_t expected = Fingerprint(File(Model(), .5f, 64));
  EXPECT_EQ(Fingerprint(File(Model(), .5f, 640)), expected);
  Builder renamed = Model();
  renamed.String("general.name", "another name").U32("general.file_type", 7);
  EXPECT_EQ(Fingerprint(File(renamed, .5f, 64)), expected);
  Builder explicit_width = Model();
  explicit_width.U32("llama.attention.key_length", 32).Key("llama.rope.freq_base", ValueType::kF32).Raw(10000.0f);
  EXPECT_EQ(Fingerprint(File(explicit_width, .5f, 64)), expected);

  EXPECT_NE(Fingerprint(File(Model(), .25f, 64)), expected);
  EXPECT_NE(Fingerprint(File(Decoder("llama", 3, 128, 4, 2), .5f, 64)), expected);
  EXPECT_NE(Fingerprint(File(Decoder("llama", 2, 128, 4, 1), .5f, 64)), expected);
  EXPECT_NE(Fingerprint(File(Decoder("qwen2", 2, 128, 4, 2), .5f, 64)), expected);
  Builder base = Model(), vocabulary = Model();
  base.Key("llama.rope.freq_base", ValueType::kF32).Raw(5000.0f);
  EXPECT_NE(Fingerprint(File(base, .5f, 64)), expected);
  vocabulary.Array<uint8_t>("tokenizer.ggml.tokens", ValueType::kU8, {1, 2, 3});
  EXPECT_NE(Fingerprint(File(vocabulary, .5f, 64)), expected);
}

TEST(Fingerprint, RespectsTheAlignment) {
  Builder builder = Model();
  builder.U32("general.alignment", 64);
  std::vector<uint8_t> bytes = File(builder, .5f, 64);
  // File() aligns to 32; the same data where an alignment of 64 wants them.
  const size_t data = 64 + 1024, header = bytes.size() - data;
  bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(header), (header + 63) / 64 * 64 - header, 0);
  EXPECT_EQ(Fingerprint(bytes), Fingerprint(File(Model(), .5f, 64)));
}

TEST(Fingerprint, RefusesWhatItCannotTell) {
  const auto refused = [](const std::vector<uint8_t>& bytes, StatusCode code, const std::string& part) {
    const std::string path = Write("refused.gguf", bytes);
    const StatusOr<uint64_t> result = ModelFingerprint(path);
    std::filesystem::remove(path);
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), code);
    EXPECT_NE(result.status().message().find(part), std::string::npos) << result.status().message();
  };
  std::vector<uint8_t> right = File(Model(), .5f, 64);
  refused({}, StatusCode::kInvalidArgument, "not a GGUF file");
  refused({right.begin(), right.end() - 4}, StatusCode::kInvalidArgument, "ends before its tensor output_norm.weight");
  refused({right.begin(), right.begin() + 300}, StatusCode::kInvalidArgument, "inside its header");
  refused(Model().Bytes(), StatusCode::kUnsupported, "neither output_norm.weight nor");
  Builder absurd = Model();
  absurd.Tensor("output_norm.weight", {128}, 0, UINT64_MAX - 8);
  refused(absurd.Bytes(), StatusCode::kInvalidArgument, "no sensible size or place");
  absurd = Model();
  absurd.Tensor("output_norm.weight", {uint64_t{1} << 40}, 0, 0);
  refused(absurd.Bytes(), StatusCode::kInvalidArgument, "no sensible size or place");
  EXPECT_EQ(ModelFingerprint("no/such/model.gguf").status().code(), StatusCode::kNotFound);
}

// The norms of a model in two files, one in each.
TEST(Fingerprint, ReadsModelsInSeveralFiles) {
  const float norm = .5f;
  const auto part = [&](Builder builder, uint32_t number, const char* tensor) {
    builder.U32("split.count", 2).U32("split.no", number).Tensor(tensor, {128}, 0, 0);
    std::vector<uint8_t> bytes = builder.Bytes();
    bytes.resize((bytes.size() + 31) / 32 * 32);
    for (int i = 0; i < 128; ++i) {
      const auto* raw = reinterpret_cast<const uint8_t*>(&norm);
      bytes.insert(bytes.end(), raw, raw + 4);
    }
    return bytes;
  };
  const std::string first = Write("m-00001-of-00002.gguf", part(Model(), 0, "blk.0.attn_norm.weight"));
  const std::string second = Write("m-00002-of-00002.gguf", part(Builder(), 1, "output_norm.weight"));
  const StatusOr<uint64_t> whole = ModelFingerprint(first);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_EQ(whole.value(), Fingerprint(File(Model(), norm, 64)));
  std::filesystem::remove(second);
  EXPECT_EQ(ModelFingerprint(first).status().code(), StatusCode::kInvalidArgument);
  std::filesystem::remove(first);
}

}  // namespace
}  // namespace swivel::gguf
