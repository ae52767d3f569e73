#include "eval/output_file.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace swivel {
namespace {

namespace fs = std::filesystem;

class OutputFile : public testing::Test {
 protected:
  void SetUp() override {
    const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = fs::path(testing::TempDir()) / ("swivel_output_" + test);
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  size_t NumFiles() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator())); }

  fs::path folder_;
};

TEST_F(OutputFile, WritesAndReplaces) {
  const std::string path = (folder_ / "a.json").string();
  EXPECT_TRUE(CheckWritable(path).ok());
  EXPECT_EQ(NumFiles(), 0u);
  ASSERT_TRUE(WriteFile(path, "one").ok());
  ASSERT_TRUE(WriteFile(path, "two").ok());
  EXPECT_EQ(NumFiles(), 1u);
  StatusOr<std::string> content = ReadFile(path);
  ASSERT_TRUE(content.ok());
  EXPECT_EQ(*content, "two");
}

TEST_F(OutputFile, SaysWhatIsWrong) {
  EXPECT_EQ(CheckWritable((folder_ / "missing" / "a.json").string()).code(), StatusCode::kIo);
  EXPECT_EQ(CheckWritable(folder_.string()).code(), StatusCode::kIo);
  EXPECT_EQ(WriteFile((folder_ / "missing" / "a.json").string(), "x").code(), StatusCode::kIo);
  EXPECT_EQ(ReadFile((folder_ / "none").string()).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadFile(folder_.string()).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(OutputFile, DevicesAreWrittenToAndStayDevices) {
  EXPECT_TRUE(CheckWritable("/dev/null").ok());
  EXPECT_TRUE(WriteFile("/dev/null", "x").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(OutputFile, ALinkStaysALink) {
  const std::string target = (folder_ / "target").string();
  const fs::path link = folder_ / "link";
  ASSERT_TRUE(WriteFile(target, "old").ok());
  fs::create_symlink(target, link);
  ASSERT_TRUE(WriteFile(link.string(), "new").ok());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(*ReadFile(target), "new");
}

TEST_F(OutputFile, AFullDiskIsAnErrorAndLeavesNothing) {
  if (!fs::is_character_file("/dev/full")) GTEST_SKIP();
  EXPECT_EQ(WriteFile("/dev/full", "x").code(), StatusCode::kIo);
}

}  // namespace
}  // namespace swivel
