#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include "gguf/header.h"
#include "gguf/shape.h"
#include "gguf_builder.h"

namespace swivel::gguf {
namespace {

Builder Sample() {
  Builder builder = Decoder("llama", 2, 128, 4, 2);
  builder.String("general.name", "sample").Array<int16_t>("negative", ValueType::kI16, {-1, 2});
  builder.Key("real", ValueType::kF32).Raw(0.5f);
  builder.Key("huge", ValueType::kU64).Raw(UINT64_MAX);
  builder.Tensor("blk.0.attn_k.bias", {64}, 0).Tensor("blk.0.attn_k.weight", {256, 64}, 12);
  return builder;
}

std::string WriteTemporary(const std::string& name, const std::vector<uint8_t>& bytes) {
  const std::string path = testing::TempDir() + std::to_string(getpid()) + name;
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return path;
}

TEST(Header, ReadsEveryKindOfValue) {
  const StatusOr<Header> header = ParseHeader(Sample().Bytes());
  ASSERT_TRUE(header.ok()) << header.status().message();
  const Header& h = header.value();
  EXPECT_TRUE(h.complete);
  EXPECT_EQ(h.Integer("llama.block_count"), 2);
  EXPECT_EQ(h.String("general.name"), "sample");
  EXPECT_EQ(h.Integers("negative"), (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(h.Integer("huge"), INT64_MAX);
  EXPECT_EQ(h.values.at("real").reals, std::vector<double>{0.5});
  // Another kind than asked for is "not there", never a wrong value.
  EXPECT_FALSE(h.Integer("general.name"));
  EXPECT_FALSE(h.Integer("negative"));
  EXPECT_FALSE(h.String("llama.block_count"));
  ASSERT_EQ(h.tensors.size(), 2u);
  EXPECT_EQ(KeyBiasTensors(h), std::vector<std::string>{"blk.0.attn_k.bias"});
  EXPECT_EQ(h.TensorBytes(), 64u * 4 + 64u * 144);
}

TEST(Header, SameFromFile) {
  const std::vector<uint8_t> bytes = Sample().Bytes();
  const std::string path = WriteTemporary("same.gguf", bytes);
  const StatusOr<Header> header = ReadHeader(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(header.value().values.size(), ParseHeader(bytes).value().values.size());
  EXPECT_EQ(header.value().file_bytes, bytes.size());
}

// Skipping goes past the reader's buffer (256 KiB).
TEST(Header, SkipsVocabulariesInFiles) {
  Builder builder;
  builder.Array<float>("scores", ValueType::kF32, std::vector<float>(200000, 1.0f));
  builder.Key("tokens", ValueType::kArray).Raw<uint32_t>(8).Raw<uint64_t>(100000);
  for (int i = 0; i < 100000; ++i) builder.Text(std::string(static_cast<size_t>(i % 40), 'x'));
  builder.U32("after", 7);
  const std::string path = WriteTemporary("vocabulary.gguf", builder.Bytes());
  const StatusOr<Header> header = ReadHeader(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(header.value().Integer("after"), 7);
  EXPECT_EQ(header.value().values.at("tokens").count, 100000u);
  EXPECT_TRUE(header.value().values.at("tokens").strings.empty());
  EXPECT_TRUE(header.value().Integers("scores").empty());
}

TEST(Header, EveryTruncationIsToldApart) {
  const std::vector<uint8_t> bytes = Sample().Bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const StatusOr<Header> header = ParseHeader(std::span(bytes.data(), size));
    if (size < 24) {
      EXPECT_EQ(header.status().code(), StatusCode::kInvalidArgument) << size;
      continue;
    }
    ASSERT_TRUE(header.ok()) << size << ": " << header.status().message();
    EXPECT_FALSE(header.value().complete) << size;
    EXPECT_NE(header.value().end_note.find(std::to_string(size) + " bytes"), std::string::npos);
    EXPECT_FALSE(header.value().TensorBytes());
  }
}

void ExpectRefused(const std::vector<uint8_t>& bytes, const std::string& part) {
  const StatusOr<Header> header = ParseHeader(bytes);
  ASSERT_FALSE(header.ok()) << part;
  EXPECT_EQ(header.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(header.status().message().find(part), std::string::npos) << header.status().message();
}

TEST(Header, RefusesOtherFilesAndVersions) {
  ExpectRefused({'G', 'G', 'M', 'L', 3, 0, 0, 0}, "not a GGUF file");
  ExpectRefused({}, "not a GGUF file");
  ExpectRefused(Builder().Bytes(1), "version 1");
  ExpectRefused(Builder().Bytes(4), "version 4");
  ExpectRefused(Builder().Bytes(0x03000000), "big-endian");
}

TEST(Header, RefusesDamage) {
  ExpectRefused(Builder().Bytes(3, int64_t{1} << 40), "keys");
  ExpectRefused(Builder().Bytes(3, 0, int64_t{1} << 40), "tensors");
  ExpectRefused(Builder().U32("twice", 1).U32("twice", 2).Bytes(), "twice");
  ExpectRefused(Builder().U32("", 1).Bytes(), "no name");
  ExpectRefused(Builder().Key("odd", static_cast<ValueType>(99)).Raw<uint64_t>(0).Bytes(), "type 99");
  ExpectRefused(Builder().Key("nested", ValueType::kArray).Raw<uint32_t>(9).Raw<uint64_t>(2).Bytes(), "nested");
  ExpectRefused(Builder().Key("long", ValueType::kString).Raw<uint64_t>(UINT64_MAX).Bytes(), "18446744073709551615");
  ExpectRefused(Builder().Tensor("t", std::vector<uint64_t>(9, 1), 0).Bytes(), "9 dimensions");
}

// Lengths that lie cost neither memory nor time: the file ends first.
TEST(Header, LyingLengthsEndWithTheFile) {
  const auto ends = [](const Builder& builder) {
    const StatusOr<Header> header = ParseHeader(builder.Bytes());
    return header.ok() && !header.value().complete;
  };
  EXPECT_TRUE(ends(Builder().Key("a", ValueType::kString).Raw<uint64_t>(1 << 27)));
  EXPECT_TRUE(ends(Builder().Key("a", ValueType::kArray).Raw<uint32_t>(8).Raw<uint64_t>(UINT64_MAX)));
  EXPECT_TRUE(ends(Builder().Key("a", ValueType::kArray).Raw<uint32_t>(10).Raw<uint64_t>(UINT64_MAX / 8 + 1)));
  EXPECT_TRUE(ends(Builder().Key("a", ValueType::kArray).Raw<uint32_t>(0).Raw<uint64_t>(4096)));
}

TEST(Header, TensorSizesThatOverflowAreUnknown) {
  const Header header = ParseHeader(Builder().Tensor("t", {uint64_t{1} << 62, uint64_t{1} << 62}, 0).Bytes()).value();
  EXPECT_TRUE(header.complete);
  EXPECT_FALSE(header.TensorBytes());
  EXPECT_FALSE(ParseHeader(Builder().Tensor("t", {1}, 12345).Bytes()).value().TensorBytes());
}

TEST(Header, FileErrorsNameTheFile) {
  EXPECT_EQ(ReadHeader("/nowhere/m.gguf").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadHeader("/").status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(ReadHeader("/nowhere/m.gguf").status().message().find("/nowhere/m.gguf"), std::string::npos);
}

TEST(Header, SplitModels) {
  const auto part = [](uint32_t number) {
    Builder builder = number == 0 ? Decoder("llama", 2, 128, 4, 2) : Builder();
    builder.Key("split.no", ValueType::kU16).Raw(static_cast<uint16_t>(number));
    builder.Key("split.count", ValueType::kU16).Raw(uint16_t{2});
    builder.Tensor("t" + std::to_string(number), {10}, 0);
    return builder.Bytes();
  };
  const std::string first = WriteTemporary("m-00001-of-00002.gguf", part(0));
  EXPECT_FALSE(ReadModelHeader(first).value().complete);  // the second part is not there yet
  const std::string second = WriteTemporary("m-00002-of-00002.gguf", part(1));
  const StatusOr<Header> whole = ReadModelHeader(first);
  ASSERT_TRUE(whole.ok());
  EXPECT_TRUE(whole.value().complete);
  EXPECT_EQ(whole.value().TensorBytes(), 80u);
  EXPECT_NE(ReadModelHeader(second).status().message().find("name the first"), std::string::npos);
  std::filesystem::remove(first);
  std::filesystem::remove(second);
}

// Random damage to a good header: any answer is fine, a crash or a hang is not (run under sanitizers).
TEST(Header, SurvivesMutation) {
  const std::vector<uint8_t> good = Sample().Bytes();
  std::mt19937 random(20261129);
  for (int round = 0; round < 30000; ++round) {
    std::vector<uint8_t> bytes = good;
    for (int i = 0, n = 1 + static_cast<int>(random() % 4); i < n; ++i) {
      uint8_t& byte = bytes[random() % bytes.size()];
      byte = random() % 2 ? static_cast<uint8_t>(random()) : static_cast<uint8_t>(byte ^ (1u << (random() % 8)));
    }
    if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
    const StatusOr<Header> header = ParseHeader(bytes);
    if (!header.ok()) continue;
    (void)ReadShape(header.value());
    (void)header.value().TensorBytes();
  }
}

}  // namespace
}  // namespace swivel::gguf
