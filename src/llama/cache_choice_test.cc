#include "llama/cache_choice.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ggml.h"

namespace swivel {
namespace {

using Strings = std::vector<std::string>;

TEST(SplitCacheList, SeparatesNames) {
  EXPECT_EQ(SplitCacheList(""), Strings{});
  EXPECT_EQ(SplitCacheList(" , ;; "), Strings{});
  EXPECT_EQ(SplitCacheList("turbo4"), Strings{"turbo4"});
  EXPECT_EQ(SplitCacheList("turbo4,turbo3; turbo2"), (Strings{"turbo4", "turbo3", "turbo2"}));
  EXPECT_EQ(SplitCacheList("turbo4, turbo3"), (Strings{"turbo4", "turbo3"}));
}

TEST(SplitCacheList, KeepsKeysTogether) {
  EXPECT_EQ(SplitCacheList("k=turbo4,v=turbo3;turbo4"), (Strings{"k=turbo4,v=turbo3", "turbo4"}));
  EXPECT_EQ(SplitCacheList("k=turbo4, v=turbo3, turbo4"), (Strings{"k=turbo4,v=turbo3", "turbo4"}));
  EXPECT_EQ(SplitCacheList("turbo4,boundary=2:q8_0,turbo3"), (Strings{"turbo4,boundary=2:q8_0", "turbo3"}));
}

TEST(SplitCacheList, ARepeatedKeyStartsASpec) {
  EXPECT_EQ(SplitCacheList("k=turbo4,v=turbo3,k=turbo3,v=turbo4"), (Strings{"k=turbo4,v=turbo3", "k=turbo3,v=turbo4"}));
  EXPECT_EQ(SplitCacheList("v=turbo3,k=turbo4"), Strings{"v=turbo3,k=turbo4"});
  EXPECT_EQ(SplitCacheList("turbo4,k=turbo4,v=turbo3"), (Strings{"turbo4", "k=turbo4,v=turbo3"}));
  EXPECT_EQ(SplitCacheList("turbo4,scale=ls,turbo4,scale=matched"), (Strings{"turbo4,scale=ls", "turbo4,scale=matched"}));
}

TEST(SplitCacheList, ASemicolonLeavesKeysToTheSpecs) {
  EXPECT_EQ(SplitCacheList("f16,q8_0,turbo4;balanced"), (Strings{"f16", "q8_0", "turbo4", "balanced"}));  // a name is a name
  EXPECT_EQ(SplitCacheList("balanced,k=tcq4;turbo4 ;turbo3, boundary=2:q8_0"), (Strings{"balanced,k=tcq4", "turbo4", "turbo3,boundary=2:q8_0"}));
  EXPECT_EQ(SplitCacheList("balanced,k=tcq4;"), Strings{"balanced,k=tcq4"});
  EXPECT_EQ(SplitCacheList("k=turbo4;v=turbo3"), (Strings{"k=turbo4", "v=turbo3"}));
}

TEST(SplitCacheList, PrefixesStartSpecs) {
  EXPECT_EQ(SplitCacheList("k=turbo4,swivel:v=q8_0"), (Strings{"k=turbo4", "swivel:v=q8_0"}));
  EXPECT_EQ(SplitCacheList("swivel:k=q8_0,v=turbo3"), Strings{"swivel:k=q8_0,v=turbo3"});
}

TEST(ParseCacheChoice, StockNames) {
  for (const char* name : {"f16", "q8_0", " q4_0 "}) {
    StatusOr<CacheChoice> choice = ParseCacheChoice(name);
    ASSERT_TRUE(choice.ok()) << choice.status().message();
    EXPECT_TRUE(choice->stock) << name;
  }
  EXPECT_EQ(ParseCacheChoice("stock:q5_1")->ggml_type, GGML_TYPE_Q5_1);
  EXPECT_FALSE(ParseCacheChoice("stock:q9").ok());
}

TEST(ParseCacheChoice, SwivelNames) {
  StatusOr<CacheChoice> forced = ParseCacheChoice("swivel:q8_0");
  ASSERT_TRUE(forced.ok()) << forced.status().message();
  EXPECT_FALSE(forced->stock);
  EXPECT_EQ(forced->name, "swivel:q8_0");
  StatusOr<CacheChoice> mixed = ParseCacheChoice("k=turbo4,v=turbo3");
  ASSERT_TRUE(mixed.ok()) << mixed.status().message();
  EXPECT_FALSE(mixed->stock);
  EXPECT_FALSE(ParseCacheChoice("turbo99").ok());
  EXPECT_FALSE(ParseCacheChoice("").ok());
}

TEST(ParseCacheList, LayersMayBeGivenSeveralTimes) {
  EXPECT_EQ(SplitCacheList("turbo4,layer=0:q8_0,layer=3-4:k=f16,turbo3,layer=1:f16,k=f16"),
            (std::vector<std::string>{"turbo4,layer=0:q8_0,layer=3-4:k=f16", "turbo3,layer=1:f16", "k=f16"}));
  EXPECT_EQ(SplitCacheList("a.toml,window=4,b.toml"), (std::vector<std::string>{"a.toml,window=4", "b.toml"}));
}

TEST(ParseCacheList, DropsRepetitions) {
  StatusOr<std::vector<CacheChoice>> choices = ParseCacheList("q8_0,turbo4,q8_0,swivel:q8_0,turbo4");
  ASSERT_TRUE(choices.ok()) << choices.status().message();
  ASSERT_EQ(choices->size(), 3u);
  EXPECT_EQ((*choices)[2].name, "swivel:q8_0");
}

}  // namespace
}  // namespace swivel
