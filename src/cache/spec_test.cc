#include "cache/spec.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace swivel {
namespace {

CacheSpec ParseOrDie(const std::string& text) {
  const StatusOr<CacheSpec> spec = ParseSpec(text);
  EXPECT_TRUE(spec.ok()) << text << ": " << spec.status().message();
  return spec.ok() ? spec.value() : CacheSpec();
}

bool Same(const CacheSpec& a, const CacheSpec& b) {
  return a.k == b.k && a.v == b.v && a.k_scale == b.k_scale && a.v_scale == b.v_scale && a.boundary_layers == b.boundary_layers &&
         (a.boundary_layers == 0 || a.boundary_codec == b.boundary_codec) && a.layers == b.layers;
}

TEST(Spec, ABareCodecSetsBothSides) {
  for (const Codec* codec : AllCodecs()) {
    const CacheSpec spec = ParseOrDie(codec->name);
    EXPECT_EQ(spec.k, codec->id);
    EXPECT_EQ(spec.v, codec->id);
    EXPECT_EQ(spec.boundary_layers, 0);
    EXPECT_FALSE(spec.k_scale || spec.v_scale);
    EXPECT_EQ(spec.ScaleFor(Side::kKey, *codec), codec->default_scale);
    EXPECT_EQ(spec.ScaleFor(Side::kValue, *codec), codec->default_scale);
  }
}

TEST(Spec, ItemsSetWhatTheyName) {
  const CacheSpec spec = ParseOrDie("k=turbo4,v=turbo2,boundary=3:q8_0_rot,k_scale=unbiased,v_scale=ls");
  EXPECT_EQ(spec.k, CodecId::kTurbo4);
  EXPECT_EQ(spec.v, CodecId::kTurbo2);
  EXPECT_EQ(spec.boundary_layers, 3);
  EXPECT_EQ(spec.boundary_codec, CodecId::kQ8_0Rot);
  EXPECT_EQ(spec.ScaleFor(Side::kKey, GetCodec(spec.k)), ScaleMode::kUnbiased);
  EXPECT_EQ(spec.ScaleFor(Side::kValue, GetCodec(spec.v)), ScaleMode::kLeastSquares);
  const CacheSpec both = ParseOrDie("turbo3,scale=unbiased");
  EXPECT_EQ(both.k_scale, ScaleMode::kUnbiased);
  EXPECT_EQ(both.v_scale, ScaleMode::kUnbiased);
}

TEST(Spec, ExactRowsAreTheWindowAndAGroup) {
  EXPECT_EQ(ParseSpec("balanced")->ExactRows(8192), 128 + 128);
  EXPECT_EQ(ParseSpec("balanced,window=512")->ExactRows(8192), 512 + 128);
  EXPECT_EQ(ParseSpec("balanced")->ExactRows(200), 200);
  EXPECT_EQ(ParseSpec("turbo4")->ExactRows(8192), 0);
}

// The exact rows are what a codec waits for that needs 32 rows at once.
TEST(Spec, CodecsThatEncodeGroupsAreStaged) {
  for (const char* text : {"kivi2", "k=kivi4,v=f16", "k=turbo4,v=kivi2", "turbo4,boundary=2:kivi4", "turbo4,layer=3:k=kivi2"}) EXPECT_TRUE(ParseOrDie(text).Staged()) << text;
  EXPECT_FALSE(ParseOrDie("turbo4").Staged());
  EXPECT_EQ(ParseOrDie("kivi2").ToString(), "k=kivi2,v=kivi2");
  EXPECT_DOUBLE_EQ(ParseOrDie("k=kivi4,v=kivi2").BitsPerValue(128, 128, 4), 4.0);
  EXPECT_FALSE(ParseSpec("kivi2,transform=full").ok());
  EXPECT_TRUE(ParseSpec("k=tcq3,v=kivi2,transform=full").ok());
}

// A dot is part of a name: items end at commas, a boundary's codec begins at the colon.
TEST(Spec, NamesWithADot) {
  const CacheSpec spec = ParseOrDie("k=turbo3.5,v=turbo2.5,boundary=2:turbo3.5");
  EXPECT_EQ(spec.k, CodecId::kTurbo3_5);
  EXPECT_EQ(spec.v, CodecId::kTurbo2_5);
  EXPECT_EQ(spec.boundary_codec, CodecId::kTurbo3_5);
  EXPECT_EQ(spec.ToString(), "k=turbo3.5,v=turbo2.5,boundary=2:turbo3.5");
  for (const char* wrong : {"turbo2,5", "turbo2.", "turbo2.50", "turbo.5", "turbo2.5.5", "2.5", "boundary=2.5:turbo2"}) {
    EXPECT_FALSE(ParseSpec(wrong).ok()) << wrong;
  }
}

// The general item first whatever its place: a specific one refines it.
TEST(Spec, OrderOfItemsDoesNotMatter) {
  const std::pair<const char*, const char*> same[] = {{"v=turbo3,turbo4", "turbo4,v=turbo3"},
                                                      {"k=f16,turbo2,boundary=1:f16", "boundary=1:f16,turbo2,k=f16"},
                                                      {"turbo4,k_scale=ls,scale=unbiased", "turbo4,scale=unbiased,k_scale=ls"},
                                                      {"v_scale=matched,scale=ls", "scale=ls,v_scale=matched"}};
  for (const auto& [a, b] : same) EXPECT_TRUE(Same(ParseOrDie(a), ParseOrDie(b))) << a << " and " << b;
  EXPECT_EQ(ParseOrDie("k_scale=ls,scale=unbiased").k_scale, ScaleMode::kLeastSquares);
}

TEST(Spec, CanonicalTextRoundTrips) {
  int count = 0;
  for (const Codec* k : AllCodecs()) {
    for (const Codec* v : AllCodecs()) {
      for (int boundary : {0, 1, 1000}) {
        for (std::optional<ScaleMode> k_scale :
             {std::optional<ScaleMode>(), std::optional(ScaleMode::kMatched), std::optional(ScaleMode::kUnbiased)}) {
          for (std::optional<ScaleMode> v_scale : {std::optional<ScaleMode>(), std::optional(ScaleMode::kLeastSquares)}) {
            CacheSpec spec;
            spec.k = k->id;
            spec.v = v->id;
            spec.boundary_layers = boundary;
            spec.boundary_codec = v->id;
            spec.k_scale = k_scale;
            spec.v_scale = v_scale;
            const CacheSpec back = ParseOrDie(spec.ToString());
            ASSERT_TRUE(Same(spec, back)) << spec.ToString();
            ASSERT_EQ(back.ToString(), spec.ToString());
            ++count;
          }
        }
      }
    }
  }
  EXPECT_GT(count, 1000);
  EXPECT_EQ(ParseOrDie("turbo4").ToString(), "k=turbo4,v=turbo4");
  EXPECT_EQ(ParseOrDie("boundary=2:q8_0,v=turbo3,scale=ls,k=turbo4").ToString(), "k=turbo4,v=turbo3,boundary=2:q8_0,k_scale=ls,v_scale=ls");
}

struct Wrong {
  const char* text;
  std::vector<const char*> message_holds;
};

TEST(Spec, ErrorsNameWhatIsWrongAndWhatIsAccepted) {
  const std::vector<const char*> codecs = {"f16", "bf16", "q8_0", "q8_0_rot", "q4_0", "q4_0_rot", "turbo2", "turbo3", "turbo4"};
  const auto with_codecs = [&](const char* name) {
    std::vector<const char*> holds = codecs;
    holds.push_back(name);
    return holds;
  };
  const std::vector<Wrong> table = {
      {"", with_codecs("empty")},
      {"turbo33", with_codecs("'turbo33'")},
      {"-1", with_codecs("'-1'")},
      {"abc", with_codecs("'abc'")},
      {"TURBO4", with_codecs("'TURBO4'")},
      {" turbo4", with_codecs("' turbo4'")},
      {"k=turbo33", with_codecs("'turbo33'")},
      {"k=", with_codecs("''")},
      {"v=-1", with_codecs("'-1'")},
      {"turbo4,", with_codecs("an item is empty")},
      {",turbo4", with_codecs("an item is empty")},
      {"k=turbo4,,v=turbo3", with_codecs("an item is empty")},
      {",", with_codecs("an item is empty")},
      {"boundary=2:", with_codecs("''")},
      {"boundary=2:turbo33", with_codecs("'turbo33'")},
      {"boundary=0", {"boundary='0'", "n:codec", "1 to 1000"}},
      {"boundary=0:q8_0", {"boundary='0:q8_0'", "1 to 1000"}},
      {"boundary=-1:q8_0", {"boundary='-1:q8_0'", "1 to 1000"}},
      {"boundary=1001:q8_0", {"1001", "1 to 1000"}},
      {"boundary=99999999999999999999:q8_0", {"99999999999999999999", "1 to 1000"}},
      {"boundary=2", {"boundary='2'", "n:codec"}},
      {"boundary=:q8_0", {"boundary=':q8_0'", "n:codec"}},
      {"boundary=2x:q8_0", {"boundary='2x:q8_0'", "n:codec"}},
      {"boundary= 2:q8_0", {"boundary=' 2:q8_0'", "n:codec"}},
      {"boundary=", {"boundary=''", "n:codec"}},
      {"scale=best", {"'best'", "matched", "unbiased", "ls"}},
      {"k_scale=", {"''", "matched", "unbiased", "ls"}},
      {"v_scale=Matched", {"'Matched'", "matched", "unbiased", "ls"}},
      {"key=turbo4", {"'key'", "k, v, boundary, layer, scale, k_scale, v_scale"}},
      {"K=turbo4", {"'K'", "k, v, boundary"}},
      {"=turbo4", {"''", "k, v, boundary"}},
      {"k=turbo4,k=turbo4", {"'k'", "twice"}},
      {"turbo4,turbo3", {"codec", "twice"}},
      {"scale=ls,scale=ls", {"'scale'", "twice"}},
      {"boundary=1:f16,boundary=2:f16", {"'boundary'", "twice"}},
      {"layer=", {"layer=''", "A-B:CODEC"}},
      {"layer=0", {"layer='0'", "A-B:CODEC", "0 to 999"}},
      {"layer=:q8_0", {"layer=':q8_0'", "A-B:CODEC"}},
      {"layer=-1:q8_0", {"layer='-1:q8_0'", "A-B:CODEC"}},
      {"layer=0-:q8_0", {"layer='0-:q8_0'", "A-B:CODEC"}},
      {"layer=3-2:q8_0", {"layer='3-2:q8_0'", "A-B:CODEC"}},
      {"layer=0-1000:q8_0", {"layer='0-1000:q8_0'", "0 to 999"}},
      {"layer=0-1-2:q8_0", {"layer='0-1-2:q8_0'", "A-B:CODEC"}},
      {"layer=0x:q8_0", {"layer='0x:q8_0'", "A-B:CODEC"}},
      {"layer=0:", with_codecs("''")},
      {"layer=0:k=", with_codecs("''")},
      {"layer=0:q=f16", with_codecs("'q=f16'")},
      {"layer=0:turbo33", with_codecs("'turbo33'")},
      {"layer=0-4:q8_0,layer=3:f16", {"layer='3:f16'", "the keys of layer 3", "already"}},
      {"layer=0-4:v=q8_0,layer=2-9:f16", {"the values of layer 2", "already"}},
      {"layer=0-4:v=q8_0,layer=2-9:v=q8_0", {"the values of layer 2", "already"}},
      {"layer=0/:q8_0,window=8", {"layer='0/:q8_0'", "A-B/H-J:CODEC", "0 to 999"}},
      {"layer=0/1-0:q8_0,window=8", {"layer='0/1-0:q8_0'", "A-B/H-J:CODEC"}},
      {"layer=0/1/2:q8_0,window=8", {"layer='0/1/2:q8_0'", "A-B/H-J:CODEC"}},
      {"layer=/1:q8_0,window=8", {"layer='/1:q8_0'", "A-B/H-J:CODEC"}},
      {"layer=0/1000:q8_0,window=8", {"layer='0/1000:q8_0'", "0 to 999"}},
      {"balanced,layer=0-4/1-2:q8_0,layer=3/2:k=f16", {"layer='3/2:k=f16'", "the keys of head 2 of layer 3", "already"}},
      {"turbo4,layer=0/1:q8_0", {"layer=A/H:CODEC", "staged cache", "window=N"}},
      {"balanced,layer=0/1:q8_0,decay=4096:2", {"layer=A/H:CODEC", "decay= or budget="}},
      {"balanced,layer=0/1:q8_0,budget=64M", {"layer=A/H:CODEC", "decay= or budget="}},
      {"balanced,layer=5/0:v=f16,layer=4-6/1:v=q8_0,layer=5-9/2:v=turbo2", {"layer 5", "its values", "4 codecs", "at most 3"}},
      {"balanced,boundary=1:q4_0,layer=0/0:k=f16,layer=0/1:k=q8_0,layer=0/2:k=tcq3", {"layer 0", "its keys", "4 codecs"}},
      {"balanced,layer=0:tcq6", {"k=tcq2, k=tcq3 or k=tcq4", "not tcq6"}},
      {"balanced,boundary=1:tcq5", {"k=tcq2, k=tcq3 or k=tcq4", "not tcq5"}},
      {"turbo4,calibration=", {"calibration=", "self"}},
      {"balanced,store=", {"store= wants the path"}},
      {"turbo4,store=a.swivel", {"store=FILE", "transform=eq or full"}},
      {"balanced,transform=wht,store=a.swivel", {"store=FILE", "transform=eq or full"}},
      {"balanced,calibration=b.swivel,store=a.swivel", {"store=FILE", "calibration=self"}},
      {"balanced,defer=on", {"defer='on'", "off nor prefill"}},
      {"turbo4,defer=prefill", {"defer=prefill", "window=N"}},
  };
  for (const Wrong& wrong : table) {
    const StatusOr<CacheSpec> spec = ParseSpec(wrong.text);
    ASSERT_FALSE(spec.ok()) << "'" << wrong.text << "'";
    EXPECT_EQ(spec.status().code(), StatusCode::kInvalidArgument);
    const std::string& message = spec.status().message();
    for (const char* part : wrong.message_holds) EXPECT_NE(message.find(part), std::string::npos) << "'" << wrong.text << "': " << message;
    // The whole text is quoted, so that one sees which of several variables and flags was read.
    if (*wrong.text != '\0') {
      EXPECT_NE(message.find("'" + std::string(wrong.text) + "'"), std::string::npos) << message;
    }
  }
}

TEST(Spec, BoundaryTakesTheFirstAndLastLayers) {
  const CacheSpec spec = ParseOrDie("k=turbo4,v=turbo3,boundary=2:q8_0");
  for (int layer = 0; layer < 8; ++layer) {
    const bool edge = layer < 2 || layer >= 6;
    EXPECT_EQ(spec.CodecFor(Side::kKey, layer, 8), edge ? CodecId::kQ8_0 : CodecId::kTurbo4) << layer;
    EXPECT_EQ(spec.CodecFor(Side::kValue, layer, 8), edge ? CodecId::kQ8_0 : CodecId::kTurbo3) << layer;
  }
  // More boundary than layers: all of them.
  for (int layer = 0; layer < 3; ++layer) EXPECT_EQ(spec.CodecFor(Side::kKey, layer, 3), CodecId::kQ8_0);
  EXPECT_EQ(ParseOrDie("turbo4").CodecFor(Side::kKey, 0, 1), CodecId::kTurbo4);
}

TEST(Spec, LayersHaveCodecsOfTheirOwn) {
  const CacheSpec spec = ParseOrDie("k=turbo4,v=turbo3,boundary=1:q8_0,layer=0-1:k=f16,layer=3:turbo2,layer=7:v=turbo4,layer=900-999:f16");
  const CodecId k[] = {CodecId::kF16, CodecId::kF16, CodecId::kTurbo4, CodecId::kTurbo2, CodecId::kTurbo4, CodecId::kQ8_0};
  const CodecId v[] = {CodecId::kQ8_0, CodecId::kTurbo3, CodecId::kTurbo3, CodecId::kTurbo2, CodecId::kTurbo3, CodecId::kQ8_0};
  for (int layer = 0; layer < 6; ++layer) {
    EXPECT_EQ(spec.CodecFor(Side::kKey, layer, 6), k[layer]) << layer;
    EXPECT_EQ(spec.CodecFor(Side::kValue, layer, 6), v[layer]) << layer;
  }
  EXPECT_EQ(spec.CodecFor(Side::kValue, 7, 8), CodecId::kTurbo4);
  EXPECT_DOUBLE_EQ(ParseOrDie("turbo4,layer=3-4:k=q8_0").BitsPerValue(128, 128, 10), 0.9 * 4.125 + 0.1 * 8.5);
  // Exceptions may leave the transform.
  EXPECT_EQ(ParseOrDie("balanced,layer=0:k=q8_0,layer=1:v=tcq6").layers.size(), 2u);
}

TEST(Spec, HeadsHaveCodecsOfTheirOwn) {
  const CacheSpec spec = ParseOrDie("k=turbo4,v=turbo3,window=64,boundary=1:q8_0,layer=1:k=f16,layer=0-2/1-2:k=q4_0,layer=2/0:turbo2");
  EXPECT_TRUE(spec.HasHeadCodecs());
  const CodecId k[3][4] = {{CodecId::kQ8_0, CodecId::kQ4_0, CodecId::kQ4_0, CodecId::kQ8_0},
                           {CodecId::kF16, CodecId::kQ4_0, CodecId::kQ4_0, CodecId::kF16},
                           {CodecId::kTurbo2, CodecId::kQ4_0, CodecId::kQ4_0, CodecId::kTurbo4}};
  for (int layer = 0; layer < 3; ++layer) {
    for (int head = 0; head < 4; ++head) EXPECT_EQ(spec.CodecFor(Side::kKey, layer, 8, head), k[layer][head]) << layer << "/" << head;
    EXPECT_EQ(spec.CodecFor(Side::kKey, layer, 8), k[layer][3]);
  }
  EXPECT_EQ(spec.CodecFor(Side::kValue, 2, 8, 0), CodecId::kTurbo2);
  EXPECT_EQ(spec.CodecFor(Side::kValue, 2, 8, 1), CodecId::kTurbo3);
  EXPECT_EQ(ParseOrDie(spec.ToString()).ToString(), spec.ToString());
  EXPECT_EQ(ParseOrDie("layer=2-2/1-1:v=f16,turbo4,sinks=4,layer=0-1/3-5:f16").ToString(),
            "k=turbo4,v=turbo4,layer=0-1/3-5:f16,layer=2/1:v=f16,sinks=4");
  EXPECT_FALSE(ParseOrDie("balanced,layer=3:q8_0").HasHeadCodecs());
  // Two layers, of 4 heads one with 8.5 bits instead of 4.125, of K only.
  EXPECT_DOUBLE_EQ(ParseOrDie("turbo4,window=64,layer=0/2:k=q8_0").BitsPerValue(128, 128, 2, 4), 4.125 + (8.5 - 4.125) / 16);
  // A third codec for heads of one layer does not count in another.
  EXPECT_TRUE(ParseSpec("balanced,layer=0/0:k=f16,layer=0/1:k=q8_0,layer=1/2:k=tcq4,layer=0/2:v=tcq6").ok());
}

TEST(Spec, SparseVIsAShareOfAtMostATenth) {
  EXPECT_EQ(ParseOrDie("balanced").sparse_v, 0.0);
  EXPECT_EQ(ParseOrDie("turbo4,sparse_v=0.001").ToString(), "k=turbo4,v=turbo4,sparse_v=0.001");
  for (const char* good : {"0.1", ".01", "1e-3", "1e-30"}) {
    const CacheSpec spec = ParseOrDie(std::string("sparse_v=") + good + ",kivi4");
    EXPECT_GT(spec.sparse_v, 0.0);
    EXPECT_EQ(ParseOrDie(spec.ToString()).sparse_v, spec.sparse_v);
  }
  for (const char* bad : {"0", "-0.01", "0.100001", "1", "nan", "inf", "1e-60", "0.01x", "", "off"}) {
    const StatusOr<CacheSpec> spec = ParseSpec(std::string("turbo4,sparse_v=") + bad);
    ASSERT_FALSE(spec.ok()) << bad;
    EXPECT_NE(spec.status().message().find(std::string("sparse_v='") + bad + "' is not above 0 and at most 0.1"), std::string::npos) << spec.status().message();
  }
}

TEST(Spec, ItemsWithoutACodecChangeTheDefault) {
  const std::string preset = kDefaultSpec;
  EXPECT_EQ(ParseOrDie("window=256").ToString(), ParseOrDie(preset + ",window=256").ToString());
  EXPECT_EQ(ParseOrDie("layer=0:q8_0,sinks=8").ToString(), ParseOrDie(preset + ",layer=0:q8_0,sinks=8").ToString());
  EXPECT_EQ(ParseOrDie("v=turbo3,k=turbo4").ToString(), "k=turbo4,v=turbo3");
  EXPECT_EQ(ParseOrDie(preset + ",k=tcq4").v, CodecId::kTcq3);
  for (const auto& [text, missing] : {std::pair("k=turbo4", "add v="), std::pair("v=turbo4,window=64", "add k=")}) {
    const StatusOr<CacheSpec> spec = ParseSpec(text);
    ASSERT_FALSE(spec.ok()) << text;
    EXPECT_NE(spec.status().message().find(missing), std::string::npos) << spec.status().message();
  }
}

TEST(Spec, LayersHaveOneCanonicalText) {
  const std::string canonical = "k=turbo4,v=turbo4,layer=0:k=f16,layer=2-4:q8_0,layer=7:v=turbo2";
  for (const char* text : {"turbo4,layer=2-4:q8_0,layer=0:k=f16,layer=7:v=turbo2", "layer=7-7:v=turbo2,layer=2-4:v=q8_0,layer=0-0:k=f16,layer=2-4:k=q8_0,turbo4"}) {
    EXPECT_EQ(ParseOrDie(text).ToString(), canonical);
  }
  EXPECT_TRUE(Same(ParseOrDie(canonical), ParseOrDie(ParseOrDie(canonical).ToString())));
  // Equal ranges, other codecs.
  EXPECT_EQ(ParseOrDie("turbo4,layer=1-2:v=q8_0,layer=1-2:k=f16").ToString(), "k=turbo4,v=turbo4,layer=1-2:k=f16,layer=1-2:v=q8_0");
}

TEST(Spec, BitsAValueAverageLayersSidesAndWidths) {
  EXPECT_DOUBLE_EQ(ParseOrDie("f16").BitsPerValue(128, 128, 30), 16.0);
  EXPECT_DOUBLE_EQ(ParseOrDie("turbo4").BitsPerValue(128, 128, 30), 4.125);
  EXPECT_DOUBLE_EQ(ParseOrDie("k=turbo4,v=turbo3").BitsPerValue(64, 64, 10), 0.5 * (4.25 + 3.25));
  // Widths weigh: K of 192 and V of 128.
  EXPECT_DOUBLE_EQ(ParseOrDie("k=turbo4,v=turbo2").BitsPerValue(192, 128, 4), ((4 + 16.0 / 192) * 192 + (2 + 16.0 / 128) * 128) / 320);
  EXPECT_DOUBLE_EQ(ParseOrDie("turbo4,boundary=1:q8_0").BitsPerValue(128, 128, 10), 0.8 * 4.125 + 0.2 * 8.5);
}

TEST(Spec, StoreNamesAFile) {
  EXPECT_EQ(ParseOrDie("balanced,store=dir/a.swivel").store, "dir/a.swivel");
  EXPECT_EQ(ParseOrDie("store=a.swivel,balanced").ToString(), ParseOrDie("balanced").ToString() + ",store=a.swivel");
}

// What a rotation alone does to keys with a large mean is no codec's fault of 5 bits or more, nor of one with zero points or a calibrated mean.
TEST(Spec, KnowsWhichKeysLoseABias) {
  const auto loses = [](const std::string& text) {
    const CacheSpec spec = ParseOrDie(text);
    return spec.LosesKeyBias(GetCodec(spec.k));
  };
  for (const char* text : {"turbo4", "turbo2", "tcq4", "q4_0", "q4_0_rot", "turbo3,window=128", "balanced,transform=wht", "balanced,mean=off,group_mean=off", "rabitq4"})
    EXPECT_TRUE(loses(text)) << text;
  for (const char* text : {"f16", "bf16", "q8_0", "q8_0_rot", "tcq5", "tcq6", "kivi2", "kivi4", "balanced", "tiny", "balanced,transform=eq", "balanced,group_mean=off", "balanced,mean=on", "k=q8_0,v=turbo2"})
    EXPECT_FALSE(loses(text)) << text;
}

TEST(Spec, SelfCalibrationTakesTokens) {
  EXPECT_EQ(ParseOrDie("balanced").SelfTokens(64, 8192), 512);
  EXPECT_EQ(ParseOrDie("balanced").SelfTokens(512, 8192), 1024);
  // Few cells: all but a group of them, but enough for the width.
  EXPECT_EQ(ParseOrDie("balanced").SelfTokens(64, 512), 384);
  EXPECT_EQ(ParseOrDie("balanced").SelfTokens(64, 200), 128);
  EXPECT_EQ(ParseOrDie("balanced,calibration=self:2048").SelfTokens(256, 768), 640);
  const CacheSpec few = ParseOrDie("balanced,calibration=self:128");
  EXPECT_TRUE(few.SelfCalibrated());
  EXPECT_EQ(few.SelfTokens(512, 8192), 128);
  EXPECT_EQ(few.ToString(), ParseOrDie("balanced").ToString() + ",calibration=self:128");
  EXPECT_EQ(ParseOrDie(few.ToString() + ",store=a.swivel").store, "a.swivel");
  EXPECT_EQ(ParseOrDie("balanced,calibration=self").ToString(), ParseOrDie("balanced").ToString());
  EXPECT_NE(ParseSpec("balanced,calibration=self:9000").status().message().find("accepted: 64 to 8192"), std::string::npos);
  for (const char* spec : {"turbo4,calibration=self:128", "balanced,transform=wht,calibration=self:128"}) EXPECT_FALSE(ParseSpec(spec).ok()) << spec;
  for (const char* tokens : {"", "63", "8193", "-128", "x", "128x"}) {
    EXPECT_FALSE(ParseSpec(std::string("balanced,calibration=self:") + tokens).ok()) << tokens;
  }
  // What stays exact in a full stream: everything until there is a basis, the window and a group behind it.
  EXPECT_EQ(ParseOrDie("balanced").ExactRows(512, 256), 512);
  EXPECT_EQ(ParseOrDie("balanced").ExactRows(640, 256), 256);
  EXPECT_EQ(ParseOrDie("balanced").ExactRows(512, 64), 256);
  EXPECT_EQ(few.ExactRows(200, 64), 200);
  EXPECT_EQ(ParseOrDie("balanced,calibration=a.swivel").ExactRows(300), 256);
  EXPECT_EQ(ParseOrDie("turbo4").ExactRows(300), 0);
}

TEST(Spec, TheMeanIsTakenWhereGroupsHaveNone) {
  EXPECT_FALSE(ParseOrDie("balanced").TakesMean());
  EXPECT_TRUE(ParseOrDie("balanced,mean=on").TakesMean());
  EXPECT_TRUE(ParseOrDie("balanced,group_mean=off").TakesMean());
  EXPECT_FALSE(ParseOrDie("balanced,group_mean=off,mean=off").TakesMean());
  const std::string balanced = ParseOrDie("balanced").ToString();
  EXPECT_EQ(ParseOrDie("balanced,mean=off").ToString(), balanced);  // what it does anyway
  for (const char* text : {"balanced,mean=on", "balanced,group_mean=off", "mean=off,balanced,group_mean=off"}) {
    const CacheSpec spec = ParseOrDie(text);
    EXPECT_NE(spec.ToString(), balanced);
    EXPECT_EQ(ParseOrDie(spec.ToString()).TakesMean(), spec.TakesMean()) << spec.ToString();
  }
}

TEST(Spec, DeferIsOffUnlessAskedFor) {
  EXPECT_FALSE(ParseOrDie("balanced").defer_prefill);
  EXPECT_FALSE(ParseOrDie("balanced,defer=off").defer_prefill);
  EXPECT_EQ(ParseOrDie("balanced,defer=off").ToString(), ParseOrDie("balanced").ToString());
  EXPECT_TRUE(ParseOrDie("balanced,defer=prefill").defer_prefill);
  EXPECT_EQ(ParseOrDie("defer=prefill,turbo4,window=64").ToString(), "k=turbo4,v=turbo4,window=64,defer=prefill");
}

TEST(Spec, HelpNamesEverythingAndItsExamplesParse) {
  const std::string help = SpecHelp();
  for (const Codec* codec : AllCodecs()) EXPECT_NE(help.find(codec->name), std::string::npos);
  for (const char* word : {"k=", "v=", "boundary=", "layer=", "scale=", "k_scale=", "v_scale=", "matched", "unbiased", "ls", "transform=", "mean=",
                           "group_mean=", "halves=", "sinks=", "window=", "decay=", "budget=", "defer=", "calibration=", "store=", "shrink=",
                           "sparse_v="}) {
    EXPECT_NE(help.find(word), std::string::npos) << word;
  }
  for (const SpecPreset& preset : SpecPresets()) EXPECT_NE(help.find(preset.name), std::string::npos);
  std::string examples = help.substr(help.find("Examples: ") + 10) + "; ";
  for (size_t end; (end = examples.find("; ")) != std::string::npos; examples.erase(0, end + 2)) ParseOrDie(examples.substr(0, end));
}

}  // namespace
}  // namespace swivel
