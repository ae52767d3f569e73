#include "eval/compare.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "eval/report.h"

namespace swivel {
namespace {

// An evaluation as it is saved, of one cache whose divergences are `scale` times the same ones.
std::string Saved(double scale, const std::string& hash = "0123") {
  EvalReport report;
  report.model = "m.gguf";
  report.reference = "q4_0";
  report.quality.token_hash = hash;
  report.quality.chunks = 1;
  report.quality.caches.resize(2);
  report.quality.caches[0].cache = *ParseCacheChoice("f16");
  CacheQuality& cache = report.quality.caches[1];
  cache.cache = *ParseCacheChoice("turbo4");
  Series series(1023);
  for (size_t i = 0; i < series.size(); ++i) series.kld[i] = static_cast<float>(scale * (0.01 + 0.001 * static_cast<double>(i % 7)));
  report.quality.caches[0].prefill.series = series;
  cache.prefill.kld = Summarize(Widen(series.kld), series.runs);
  cache.prefill.same_top1 = MeanError{1 - scale / 10, 0.01};
  cache.prefill.series = std::move(series);
  return ReportJson(report);
}

SavedEvaluation Parse(const std::string& text) {
  StatusOr<SavedEvaluation> saved = ParseEvaluation(text, "x.json");
  EXPECT_TRUE(saved.ok()) << saved.status().message();
  return saved.ok() ? *saved : SavedEvaluation();
}

TEST(Compare, PairsWhatTheReportSaved) {
  const SavedEvaluation a = Parse(Saved(1)), b = Parse(Saved(1.1));
  ASSERT_EQ(WhyNotPaired(a, b), "");
  StatusOr<std::vector<ComparedCache>> compared = Compare(a, b, "", "");
  ASSERT_TRUE(compared.ok()) << compared.status().message();
  ASSERT_EQ(compared->size(), 1u);  // f16 is not compared with itself
  const ComparedCache& cache = (*compared)[0];
  EXPECT_EQ(cache.kld.verdict, Verdict::kWorse);
  EXPECT_NEAR(cache.kld.ratio, 1.1, 1e-6);
  EXPECT_EQ(cache.decode_kld.verdict, Verdict::kNotMeasured);
  EXPECT_NEAR(*Excess(cache, "kld"), 0.1 * *cache.a->kld, 1e-9);
  EXPECT_NEAR(*Excess(cache, "top1"), 0.01, 1e-12);  // lost
  EXPECT_FALSE(Excess(cache, "decode_kld").has_value());
  EXPECT_EQ((*Compare(b, a, "turbo4", ""))[0].kld.verdict, Verdict::kBetter);
  EXPECT_EQ((*Compare(a, a, "", ""))[0].kld.verdict, Verdict::kNotDistinguishable);
}

TEST(Compare, SaysWhyItCannotPair) {
  const SavedEvaluation a = Parse(Saved(1));
  SavedEvaluation b = Parse(Saved(1, "4567"));
  EXPECT_NE(WhyNotPaired(a, b).find("other tokens"), std::string::npos);
  EXPECT_EQ((*Compare(a, b, "", ""))[0].kld.verdict, Verdict::kNotMeasured);
  b.context_tokens = 17;
  EXPECT_NE(WhyNotPaired(a, b).find("17"), std::string::npos);
  b.token_hash.clear();
  EXPECT_NE(WhyNotPaired(a, b).find("x.json has no figures of single tokens"), std::string::npos);
}

TEST(Compare, NamesWhatIsMissing) {
  const SavedEvaluation a = Parse(Saved(1));
  const StatusOr<std::vector<ComparedCache>> missing = Compare(a, a, "turbo4", "turbo9");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.status().message().find("no cache turbo9; it has f16, turbo4"), std::string::npos) << missing.status().message();
}

TEST(ParseEvaluation, RefusesOtherText) {
  for (const char* text : {"", "{", "[]", "{}", "{\"results\":3}", "{\"results\":[]}", "{\"results\":[1,{\"kv\":2}]}"}) {
    EXPECT_EQ(ParseEvaluation(text, "x.json").status().code(), StatusCode::kInvalidArgument) << text;
  }
  // Keys of other types are as if they were not there.
  EXPECT_TRUE(ParseEvaluation(R"({"results":[{"kv":"a","kld":3,"same_top1":"x"}],"runs":[-1,"a"],"n_ctx":"b"})", "x.json").ok());
}

TEST(ParseLimit, TakesFiguresAndNumbers) {
  StatusOr<Limit> limit = ParseLimit("kld=0.01");
  ASSERT_TRUE(limit.ok());
  EXPECT_EQ(limit->figure, "kld");
  EXPECT_DOUBLE_EQ(limit->most, 0.01);
  for (const char* text : {"", "kld", "kld=", "kld=x", "kld=0.1x", "bits=1", "kld=nan", "=1"}) EXPECT_FALSE(ParseLimit(text).ok()) << text;
}

}  // namespace
}  // namespace swivel
