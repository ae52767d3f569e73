#include "eval/store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "eval/output_file.h"
#include "eval/series.h"

namespace swivel {
namespace {

class StoreFile : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  const std::string path_ = (std::filesystem::path(testing::TempDir()) / ("swivel_store" + std::to_string(getpid()))).string();
  const Conditions conditions_ = {{"-c", "512"}, {"model", "m.gguf"}};
};

TEST_F(StoreFile, GivesBackWhatWasAdded) {
  Series series(3);
  series.kld = {1e-9f, 0.25f, std::numeric_limits<float>::infinity()};
  {
    StatusOr<std::unique_ptr<Store>> store = Store::Open(path_, conditions_);
    ASSERT_TRUE(store.ok()) << store.status().message();
    Record record = ToRecord(series);
    record.numbers["bits"] = 4.25;
    ASSERT_TRUE((*store)->Add("swivel:k=turbo4", "chunk 0", record).ok());
    ASSERT_TRUE((*store)->Add("base", "chunk 0", {}).ok());
  }
  StatusOr<std::unique_ptr<Store>> store = Store::Open(path_, conditions_);
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_EQ((*store)->size(), 2u);
  const Record* record = (*store)->Find("swivel:k=turbo4", "chunk 0");
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(ToSeries(*record).kld, series.kld);
  EXPECT_EQ(ToSeries(*record).runs, std::vector<size_t>{3});
  EXPECT_EQ(record->numbers.at("bits"), 4.25);
  EXPECT_EQ((*store)->Find("swivel:k=turbo4", "chunk 1"), nullptr);
}

// A full disk, as a limit on the size of files.
TEST_F(StoreFile, AFileThatCannotGrowIsAnErrorAndKeepsWhatItHas) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const auto limit_to = [&](rlim_t bytes) {
    const rlimit limit = {bytes, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  };
  limit_to(10);
  StatusOr<std::unique_ptr<Store>> store = Store::Open(path_, conditions_);
  limit_to(before.rlim_cur);
  ASSERT_FALSE(store.ok()) << "its first line does not fit";
  EXPECT_NE(store.status().message().find("cannot write '" + path_ + "': File too large"), std::string::npos) << store.status().message();

  std::filesystem::remove(path_);
  store = Store::Open(path_, conditions_);
  ASSERT_TRUE(store.ok());
  ASSERT_TRUE((*store)->Add("base", "a", ToRecord(Series(4))).ok());
  limit_to(std::filesystem::file_size(path_) + 5);
  const Status status = (*store)->Add("base", "b", ToRecord(Series(4)));
  limit_to(before.rlim_cur);
  EXPECT_EQ(status.code(), StatusCode::kIo);
  store->reset();
  store = Store::Open(path_, conditions_);
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_NE((*store)->Find("base", "a"), nullptr);
  EXPECT_EQ((*store)->Find("base", "b"), nullptr);
}

TEST_F(StoreFile, RefusesOtherConditionsAndNamesThem) {
  { ASSERT_TRUE(Store::Open(path_, conditions_).ok()); }
  StatusOr<std::unique_ptr<Store>> other = Store::Open(path_, {{"-c", "1024"}, {"model", "m.gguf"}, {"-t", "2"}});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(other.status().message().find("-c is 512 there and 1024 now"), std::string::npos) << other.status().message();
  EXPECT_NE(other.status().message().find("-t is not given there"), std::string::npos) << other.status().message();
}

TEST_F(StoreFile, DropsALineThatWasCutOffAndWritesBehindTheRest) {
  {
    StatusOr<std::unique_ptr<Store>> store = Store::Open(path_, conditions_);
    for (const char* unit : {"a", "b", "c"}) ASSERT_TRUE((*store)->Add("base", unit, ToRecord(Series(4))).ok());
  }
  const std::string content = *ReadFile(path_);
  ASSERT_TRUE(WriteFile(path_, content.substr(0, content.size() - 20)).ok());
  {
    StatusOr<std::unique_ptr<Store>> store = Store::Open(path_, conditions_);
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_EQ((*store)->size(), 2u);
    ASSERT_TRUE((*store)->Add("base", "c", ToRecord(Series(4))).ok());
  }
  EXPECT_EQ(*ReadFile(path_), content);
}

TEST_F(StoreFile, OtherFilesAreAnError) {
  for (const char* content :
       {"hello\n", "{}\n", "no line", "{\"swivel_eval_state\":1,\"conditions\":{\"-c\":\"512\",\"model\":\"m.gguf\"}}\n[]\n",
        "{\"swivel_eval_state\":1,\"conditions\":{\"-c\":\"512\",\"model\":\"m.gguf\"}}\n{\"cache\":1,\"unit\":\"a\"}\n"}) {
    ASSERT_TRUE(WriteFile(path_, content).ok());
    StatusOr<std::unique_ptr<Store>> store = Store::Open(path_, conditions_);
    ASSERT_FALSE(store.ok()) << content;
    EXPECT_EQ(store.status().code(), StatusCode::kIo) << content;
    EXPECT_EQ(*ReadFile(path_), content);  // it is not ours to change
  }
}

TEST(EncodeFloats, IsBase64OfLittleEndian) {
  EXPECT_EQ(EncodeFloats({1.0f}), "AACAPw==");
  EXPECT_EQ(EncodeFloats({}), "");
  for (size_t count = 0; count < 9; ++count) {
    std::vector<float> values;
    for (size_t i = 0; i < count; ++i) values.push_back(-1.5f * static_cast<float>(i) + 1e-6f);
    EXPECT_EQ(DecodeFloats(EncodeFloats(values)), values);
  }
  EXPECT_TRUE(DecodeFloats("AACA!w==").empty());
  EXPECT_TRUE(DecodeFloats("AACA").empty());  // three bytes are no float
}

}  // namespace
}  // namespace swivel
