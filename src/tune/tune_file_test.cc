#include "tune/tune_file.h"

#include <gtest/gtest.h>

#include <string>

#include "cache/spec_file.h"

namespace swivel {
namespace {

TEST(TuneFile, ReadsBackAsTheSpec) {
  for (const char* text :
       {"turbo4", "balanced", "k=tcq4,v=tcq3,transform=eq,group_mean=off,mean=off,halves=off,sinks=16,window=256,shrink=.25,calibration=/a b/m.swivel",
        "k=turbo3.5,v=f16,boundary=2:q8_0,k_scale=ls,v_scale=unbiased", "balanced,layer=0-4:k=tcq4,layer=0-4:v=tcq2,layer=9:q8_0,shrink=1",
        "tiny,calibration=/odd\"\\name.swivel,shrink=0", "tiny,sparse_v=1e-05"}) {
    const CacheSpec spec = ParseSpec(text).value();
    const std::string file = TuneFileText(spec, {"made for a test", "", "= [ \" ]"}, {{"kld", "0.03"}, {"text", TomlString("a\n\"b\"\x7f")}});
    const StatusOr<CacheSpec> back = ParseSpecFile(file, "/m.toml");
    ASSERT_TRUE(back.ok()) << back.status().message() << "\n" << file;
    EXPECT_EQ(back.value().ToString(), spec.ToString()) << file;
  }
}

TEST(TuneFile, SaysWhatItsLinesMean) {
  const std::string file = TuneFileText(ParseSpec("balanced,layer=3:v=tcq4").value(), {"head"}, {{"bits", "3.3"}});
  EXPECT_EQ(file,
            "# head\n\n"
            "k = \"tcq3\"            # codec of keys\n"
            "v = \"tcq3\"            # codec of values\n"
            "transform = \"full\"    # basis of keys: full a matrix a head, eq equalised channels, wht none of the model\n"
            "sinks = 4             # first tokens that stay exact\n"
            "window = 128          # last tokens that stay exact, at least\n"
            "calibration = \"self\"  # self: from the first tokens of a context; else a file of swivel calibrate\n"
            "\n[[layer]]\nrange = \"3\"\nv = \"tcq4\"\n"
            "\n# What was measured when this file was written. Swivel does not read it.\n[expected]\nbits = 3.3\n");
}

}  // namespace
}  // namespace swivel
