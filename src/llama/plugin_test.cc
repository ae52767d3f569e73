#include "llama/plugin.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace swivel {
namespace {

TEST(ParseReport, ReadsTheCachesOfThePlugin) {
  const std::vector<CacheReport> reports = ParseReport(
      R"({"version":"0.1.0","kv":"turbo4","caches":[
          {"context":3,"kv":"k=turbo4,v=turbo3","tensors":60,"packed_tensors":58,"cells":256,"bits_per_value":3.75,
           "packed_bytes":1382400,"resident_bytes":4096,"f16_bytes":5898240},
          {"context":4}]})");
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].context, 3);
  EXPECT_EQ(reports[0].kv, "k=turbo4,v=turbo3");
  EXPECT_EQ(reports[0].packed_tensors, 58);
  EXPECT_EQ(reports[0].packed_bytes, 1382400);
  EXPECT_FALSE(reports[1].packed_bytes.has_value());
}

TEST(ParseReport, ForgivesWhatItDoesNotKnow) {
  EXPECT_TRUE(ParseReport("").empty());
  EXPECT_TRUE(ParseReport("{").empty());
  EXPECT_TRUE(ParseReport("{\"caches\":7}").empty());
  EXPECT_TRUE(ParseReport("[1, \"x\"]").empty());
}

TEST(FindPlugin, SaysWhereItLooked) {
  setenv("SWIVEL_PLUGIN", "/nonexistent/libggml-swivel.so", 1);
  StatusOr<std::string> path = FindPlugin();
  ASSERT_FALSE(path.ok());
  EXPECT_NE(path.status().message().find("SWIVEL_PLUGIN"), std::string::npos);
  unsetenv("SWIVEL_PLUGIN");
}

}  // namespace
}  // namespace swivel
