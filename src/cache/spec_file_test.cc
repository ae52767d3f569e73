#include "cache/spec_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace swivel {
namespace {

std::string Read(const std::string& text, const std::string& path = "dir/m.toml") {
  const StatusOr<CacheSpec> spec = ParseSpecFile(text, path);
  EXPECT_TRUE(spec.ok()) << text << ": " << spec.status().message();
  return spec.ok() ? spec.value().ToString() : "";
}

std::string Line(const std::string& text) { return ParseSpec(text).value().ToString(); }

TEST(SpecFile, HasTheKeysOfALine) {
  EXPECT_EQ(Read("# nothing\n"), Line(kDefaultSpec));
  EXPECT_EQ(Read("k = \"tcq3\"\nv = 'tcq2' # why\ntransform = \"full\"\nsinks = 4\nwindow = 128\ngroup_mean = false\nshrink = 0.25\n"),
            Line("k=tcq3,v=tcq2,transform=full,sinks=4,window=128,group_mean=off,shrink=.25"));
  EXPECT_EQ(Read("halves = \"off\"\nmean = true\nsinks = \"4\"\nboundary = \"2:q8_0\"\nk_scale = \"ls\"\nscale = \"unbiased\"\n"),
            Line("halves=off,mean=on,sinks=4,boundary=2:q8_0,scale=unbiased,k_scale=ls"));
  EXPECT_EQ(Read("preset = \"tiny\"\nsparse_v = 0.001\n"), Line("tiny,sparse_v=.001"));
  // Whatever the order, a preset comes first.
  EXPECT_EQ(Read("k = \"tcq4\"\npreset = \"small\"\n"), Line("small,k=tcq4"));
  EXPECT_EQ(Read("\xEF\xBB\xBFk = \"f16\"\r\nv = \"f16\"\r\n"), Line("f16"));
}

TEST(SpecFile, HasTablesOfLayers) {
  EXPECT_EQ(Read("preset = \"balanced\"\n[[layer]]\nrange = \"0-1\"\ncodec = \"q8_0\"\n[[layer]]\nrange = 5\nk = \"tcq4\"\nv = \"f16\"\n"),
            Line("balanced,layer=0-1:q8_0,layer=5:k=tcq4,layer=5:v=f16"));
  EXPECT_EQ(Read("preset = \"balanced\"\n[[layer]]\nrange = \"0-1\"\nheads = \"1-2\"\nk = \"q8_0\"\n[[layer]]\nrange = 5\nheads = 0\ncodec = \"f16\"\n"),
            Line("balanced,layer=0-1/1-2:k=q8_0,layer=5/0:f16"));
  EXPECT_EQ(Read("layer = [{range = \"2\", v = \"turbo2\"}]"), Line("layer=2:v=turbo2"));
}

TEST(SpecFile, ExpectedIsForPeople) {
  EXPECT_EQ(Read("k = \"f16\"\nv = \"f16\"\n[expected]\nbits = 3.25\nmodel = \"x\"\nanything = [1, {a = 2026-01-01}]\n"), Line("f16"));
}

TEST(SpecFile, CalibrationIsRelativeToTheFile) {
  EXPECT_EQ(ParseSpecFile("calibration = \"m.swivel\"", "a/b.toml")->calibration, "a/m.swivel");
  EXPECT_EQ(ParseSpecFile("calibration = \"../m.swivel\"", "/a/b.toml")->calibration, "/a/../m.swivel");
  EXPECT_EQ(ParseSpecFile("calibration = \"/m.swivel\"", "a/b.toml")->calibration, "/m.swivel");
  EXPECT_EQ(ParseSpecFile("calibration = \"m.swivel\"", "b.toml")->calibration, "m.swivel");
  EXPECT_EQ(ParseSpecFile("calibration = \"self:256\"", "a/b.toml")->self_tokens, 256);
  EXPECT_EQ(ParseSpecFile("preset = \"balanced\"\nstore = \"m.swivel\"", "a/b.toml")->store, "a/m.swivel");
  EXPECT_EQ(ParseSpecFile("calibration = \"self\"", "a/b.toml")->calibration, "self");
}

TEST(SpecFile, ErrorsNameFileLineKeyAndWhatIsAccepted) {
  struct Wrong {
    const char* text;
    std::vector<const char*> message_holds;
  };
  const std::vector<Wrong> table = {
      {"k = \"tcq33\"", {"m.toml:1:", "'k'", "'tcq33'", "turbo4"}},
      {"\n\nwindo = 4", {"m.toml:3:", "'windo'", "accepted: preset, k, v, boundary, layer, scale"}},
      {"k = [1]", {"m.toml:1:", "'k'", "a string, a number, true or false"}},
      {"k = 2026-01-01", {"'k'", "wrong kind"}},
      {"window = 1.5", {"'window'", "'1.5'", "a number from 0"}},
      {"window = true", {"'window'", "'on'"}},
      {"mean = 1", {"'mean'", "neither on nor off"}},
      {"shrink = nan", {"'shrink'", "within 0 and 1"}},
      {"sparse_v = 1", {"m.toml:1:", "'sparse_v'", "at most 0.1"}},
      {"preset = \"huge\"", {"'huge'", "quality, balanced, small, tiny"}},
      {"preset = \"m.toml\"", {"'m.toml'", "quality, balanced"}},
      {"preset = \"turbo4\"", {"'turbo4'", "quality, balanced"}},
      {"\"k=tcq3,v\" = \"f16\"", {"is no key"}},
      {"\"k, v\" = \"f16\"", {"is no key"}},
      {"\"\" = \"f16\"", {"is no key"}},
      {"k = \"f16,v=f16\"", {"'f16,v=f16'"}},
      {"calibration = \"a,b\"", {"comma"}},
      {"layer = \"0:f16\"", {"[[layer]]"}},
      {"[layer]\nrange = 1", {"[[layer]]"}},
      {"layer = [1]", {"[[layer]]"}},
      {"expected = 1", {"[expected]"}},
      {"\n[[layer]]\nrange = \"0-1\"", {"m.toml:2:", "codec"}},
      {"[[layer]]\ncodec = \"f16\"", {"m.toml:1:", "range"}},
      {"[[layer]]\nrange = 1\ncodec = \"f16\"\nk = \"f16\"", {"codec, or k and v"}},
      {"[[layer]]\nrange = 1\ncodek = \"f16\"", {"m.toml:3:", "'codek'"}},
      {"[[layer]]\nrange = \"1:q8_0,x\"\ncodec = \"f16\"", {"'range'"}},
      {"[[layer]]\nrange = 1\ncodec = \"k=f16\"", {"'codec'"}},
      {"[[layer]]\nrange = \"4-2\"\ncodec = \"f16\"", {"4-2"}},
      {"[[layer]]\nrange = 1\ncodec = \"f16\"\n[[layer]]\nrange = \"0-2\"\nk = \"f16\"", {"m.toml:4:", "already"}},
      {"k = \"f16\"\nv = \"f16\"\ntransform = \"full\"", {"m.toml: ", "k=tcq2"}},
      {"k = \"f16\"", {"m.toml: ", "add v="}},
      {"k = ", {"m.toml:1:", "not TOML"}},
      {"k = \"f16\"\nk = \"f16\"", {"m.toml:2:", "not TOML"}},
      {"k = \"\xff\"", {"m.toml:1:", "not TOML"}},
  };
  for (const Wrong& wrong : table) {
    const StatusOr<CacheSpec> spec = ParseSpecFile(wrong.text, "dir/m.toml");
    ASSERT_FALSE(spec.ok()) << wrong.text;
    EXPECT_EQ(spec.status().code(), StatusCode::kInvalidArgument);
    for (const char* part : wrong.message_holds) EXPECT_NE(spec.status().message().find(part), std::string::npos) << wrong.text << ": " << spec.status().message();
    EXPECT_TRUE(spec.status().message().starts_with("dir/m.toml:")) << spec.status().message();
  }
  EXPECT_FALSE(ParseSpecFile("k = " + std::string(100000, '['), "m.toml").ok());
}

class SpecFileOnDisk : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "swivel_spec_" + testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + name, std::ios::binary) << text;
    return folder_ + name;
  }
  std::string folder_;
};

TEST_F(SpecFileOnDisk, IsASpecWhereverOneIsTaken) {
  const std::string path = Write("m.swivel.toml", "preset = \"small\"\ncalibration = \"m.swivel\"\n");
  EXPECT_EQ(ParseSpec(path)->ToString(), Line("small,calibration=" + folder_ + "m.swivel"));
  EXPECT_EQ(ParseSpec(path + ",window=256,k=tcq4")->ToString(), Line("small,k=tcq4,window=256,calibration=" + folder_ + "m.swivel"));
  EXPECT_EQ(ParseSpec("window=256," + path)->window, 256);
  EXPECT_FALSE(ParseSpec(path + ",turbo4").ok());
}

TEST_F(SpecFileOnDisk, ErrorsOfFiles) {
  const auto none = ParseSpec(folder_ + "none.toml");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), StatusCode::kNotFound);
  EXPECT_NE(none.status().message().find(folder_ + "none.toml: cannot be read: No such file"), std::string::npos) << none.status().message();
  std::filesystem::create_directories(folder_ + "d.toml");
  EXPECT_EQ(ParseSpec(folder_ + "d.toml").status().code(), StatusCode::kIo);
  EXPECT_NE(ParseSpec(Write("large.toml", std::string((1 << 20) + 1, '#'))).status().message().find("too large"), std::string::npos);
  const auto wrong = ParseSpec(Write("wrong.toml", "\nk = 3"));
  EXPECT_NE(wrong.status().message().find("wrong.toml:2: 'k'"), std::string::npos) << wrong.status().message();
  for (const char* name : {".toml", "m.tom", "m.TOML"}) EXPECT_EQ(ParseSpec(name).status().code(), StatusCode::kInvalidArgument) << name;
}

}  // namespace
}  // namespace swivel
