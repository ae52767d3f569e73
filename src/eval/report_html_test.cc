#include "eval/report_html.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "eval/output_file.h"
#include "eval/report_charts.h"
#include "eval/report_choice.h"
#include "eval/test_report.h"

namespace swivel {
namespace {

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ReportHtml, StandsAlone) {
  const std::string page = ReportHtml(SampleReport());
  for (const char* forbidden : {"http:", "https:", "src=", "@import", "<b>&", ">nan", ">inf", "\"nan", "NaN"}) {
    EXPECT_EQ(page.find(forbidden), std::string::npos) << forbidden;
  }
  EXPECT_NE(page.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_NE(page.find("&lt;b&gt;&amp;"), std::string::npos);  // the token that stood at the worst place
  EXPECT_EQ(Count(page, "<figure"), 10u);
  EXPECT_EQ(Count(page, "data-as=\"png\""), 10u);
  for (const char* tag : {"section", "figure", "div", "table", "tr", "td", "svg", "article", "ul", "li"}) {
    const std::string open = std::string("<") + tag;
    EXPECT_EQ(Count(page, open + ">") + Count(page, open + " "), Count(page, std::string("</") + tag + ">")) << tag;
  }
}

TEST(ReportHtml, WhatWasNotMeasuredSaysSo) {
  const std::string page = ReportHtml(SampleReport(/*with_tasks=*/false, /*with_speed=*/false));
  EXPECT_EQ(Count(page, "<figure"), 5u);  // rate, position, histogram, layers, memory
  EXPECT_EQ(Count(page, "<p>Not measured.</p>"), 4u);
  EXPECT_NE(page.find("<code>--tasks all</code>"), std::string::npos);
  EXPECT_NE(page.find("Copying and needles: not measured"), std::string::npos);
  // An evaluation of nothing is a page all the same.
  EvalReport empty;
  empty.quality.caches.resize(1);
  EXPECT_NE(ReportHtml(empty).find("Not measured."), std::string::npos);
}

TEST(ReportHtml, ARefusedOrDamagedCacheIsARow) {
  EvalReport report = SampleReport(false, false);
  report.quality.caches.emplace_back();
  report.quality.caches.back().cache.name = "turbo9";
  report.quality.caches.back().refusal = "no <such> thing";
  report.quality.caches[3].prefill.kld = {};
  report.quality.caches[3].prefill.kld.mean = std::nan("");
  report.quality.caches[3].prefill.kld.invalid = 7;
  report.quality.caches[3].prefill.kld.positions = 3069;
  const std::string page = ReportHtml(report);
  EXPECT_NE(page.find("not measured: no &lt;such&gt; thing"), std::string::npos);
  EXPECT_NE(page.find("NaN or infinite divergence at 7 of 3069"), std::string::npos);
  for (const Choice& choice : Choose(report)) EXPECT_NE(choice.cache, 3u);
}

TEST(Choose, TakesTheSmallestThatIsNotWorse) {
  const EvalReport report = SampleReport();
  const std::vector<Choice> choices = Choose(report);
  ASSERT_EQ(choices.size(), 4u);
  EXPECT_EQ(report.quality.caches[choices[0].cache].cache.name, "q8_0");
  EXPECT_EQ(choices[0].reasons[0], "Nothing smaller is as near to f16 as q8_0");
  size_t nearest = 0;
  for (size_t i = 1; i < report.quality.caches.size(); ++i) {
    const CacheQuality& cache = report.quality.caches[i];
    if (cache.use.bits_per_value > 4.5) continue;
    if (nearest == 0 || *cache.prefill.kld.mean < *report.quality.caches[nearest].prefill.kld.mean) nearest = i;
  }
  EXPECT_EQ(choices[1].cache, nearest);
  EXPECT_EQ(choices[1].reasons[0], "Nearest to f16 in no more memory than q4_0");
  // tcq3 is as good as q4_0 here with 3.25 bits.
  EXPECT_EQ(report.quality.caches[choices[2].cache].cache.name, "tcq3");
  EXPECT_EQ(choices[2].reasons[0], "Smallest that is not worse than q4_0");
  EXPECT_EQ(report.quality.caches[choices[3].cache].cache.name, "tcq2");
}

TEST(Choose, ABadDecodePathIsNoChoice) {
  EvalReport report = SampleReport();
  for (float& kld : report.quality.caches[6].decode.series.kld) kld *= 50;
  const std::vector<Choice> choices = Choose(report);
  EXPECT_NE(report.quality.caches[choices[2].cache].cache.name, "tcq3");
}

TEST(ChangedTokens, CountsInWords) {
  CacheQuality cache;
  EXPECT_EQ(ChangedTokens(cache), "not measured");
  cache.prefill.kld.positions = 3069;
  cache.prefill.same_top1 = MeanError{0.9, 0.01};
  EXPECT_EQ(ChangedTokens(cache), "1 in 10");
  cache.prefill.same_top1 = MeanError{1, 0};
  EXPECT_EQ(ChangedTokens(cache), "fewer than 1 in 3069");
}

TEST(UseCommand, IsOneThatRuns) {
  const EvalReport report = SampleReport();
  EXPECT_EQ(UseCommand(report, report.quality.caches[9]),
            "llama-server -m models/SmolLM2-135M-Instruct-Q4_1.gguf -fa on -ctk q5_1 -ctv q5_1");
  EXPECT_EQ(UseCommand(report, report.quality.caches[6]),
            "swivel exec llama-server -m models/SmolLM2-135M-Instruct-Q4_1.gguf --kv tcq3");
}

TEST(HistogramChart, DrawsSingleTokensAndZeros) {
  EvalReport report = SampleReport(false, false);
  report.quality.caches.resize(2);
  report.quality.caches[1].prefill.series = Series(1000);
  report.quality.caches[1].prefill.series.kld[999] = 0.5f;
  const std::string svg = HistogramChart(report);
  // Two bars: 999 zeros in the first bin, one token at 0.5.
  const size_t path = svg.find("class=\"bar\"");
  EXPECT_EQ(Count(svg.substr(path, svg.find("/>", path) - path), "M"), 2u);
}

// tests/cli/report_page_test.py opens it in a browser.
TEST(ReportHtml, WritesThePageForTheBrowserTest) {
  const char* path = std::getenv("SWIVEL_TEST_PAGE");
  if (path == nullptr) GTEST_SKIP() << "SWIVEL_TEST_PAGE names no file";
  ASSERT_TRUE(WriteFile(path, ReportHtml(SampleReport())).ok());
}

}  // namespace
}  // namespace swivel
