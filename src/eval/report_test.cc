#include "eval/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "eval/store.h"
#include "eval/test_report.h"

namespace swivel {
namespace {

EvalReport Example() {
  EvalReport report;
  report.model = "m.gguf";
  report.text = "text";
  report.weights = "as-is";
  report.reference = "q4_0";
  report.quality.chunks = 3;
  report.quality.floor.kld = {3069, 0, 4e-7, 1e-8, 3e-7, 1e-6, 2e-6, 3e-6, 5e-6};
  report.quality.floor.same_top1 = MeanError{1.0, 0.0};
  for (const char* name : {"f16", "q4_0", "k=turbo4,v=turbo3,boundary=2:q8_0"}) {
    CacheQuality cache;
    cache.cache.name = name;
    cache.use.bits_per_value = 4.5;
    cache.use.cache_bytes = 12345678;
    cache.perplexity = MeanError{17.25, 0.4};
    report.quality.caches.push_back(cache);
  }
  for (size_t i = 1; i < 3; ++i) {
    CacheQuality& cache = report.quality.caches[i];
    cache.prefill.kld = {3069, 0, 0.000233, 0.00001, 0.0001, 0.0005, 0.00312, 0.0091, 0.1};
    cache.prefill.same_top1 = MeanError{0.89, 0.006};
    cache.log_ppl_ratio = MeanError{0.01, 0.002};
    cache.prefill.top5_overlap = MeanError{0.91, 0.01};
    cache.prefill.mean_delta_p = MeanError{-0.0123, 0.0011};
    cache.worst = TextPlace{2, 1719, " the"};
  }
  return report;
}

TEST(ReportJson, HasTheAgreedKeysAndNullForWhatWasNotMeasured) {
  const nlohmann::json json = nlohmann::json::parse(ReportJson(Example()));
  for (const char* key : {"model", "text", "n_ctx", "floor", "results", "version", "threads", "cpu", "weights", "llama_cpp", "command"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  const nlohmann::json& row = json["results"][1];
  for (const char* key :
       {"kv", "bits_per_value", "cache_bytes", "peak_rss_bytes", "ppl", "kld", "same_top1", "decode_kld", "prefill_tps", "decode_tps"}) {
    EXPECT_TRUE(row.contains(key)) << key;
  }
  EXPECT_DOUBLE_EQ(row["kld"]["mean"].get<double>(), 0.000233);
  EXPECT_TRUE(row["decode_kld"]["mean"].is_null());
  EXPECT_TRUE(row["decode_tps"].is_null());
  EXPECT_TRUE(row["peak_rss_bytes"].is_null());
  // The base is not compared with itself.
  EXPECT_TRUE(json["results"][0]["kld"]["mean"].is_null());
  EXPECT_TRUE(json["results"][0]["same_top1"].is_null());
}

TEST(ReportJson, AFullEvaluationHasEveryFigure) {
  const nlohmann::json json = nlohmann::json::parse(ReportJson(SampleReport()));
  EXPECT_EQ(json["reference"], "q4_0");
  EXPECT_EQ(json["runs"], (std::vector<int>{1023, 1023, 1023}));
  EXPECT_TRUE(json["results"][0]["kld_of_positions"].is_null());
  for (size_t i = 1; i < json["results"].size(); ++i) {
    const nlohmann::json& row = json["results"][i];
    for (const char* key : {"top5_overlap", "mean_delta_p", "kld_max_at", "kld_by_position", "decode4_kld", "greedy", "versus_reference",
                            "tasks", "policies", "counters", "warnings", "kld_of_positions", "decode_kld_of_positions", "speed_by_depth"}) {
      EXPECT_FALSE(row[key].is_null()) << row["kv"] << " " << key;
    }
    EXPECT_EQ(row["kld_by_position"].size(), 8u);
    EXPECT_EQ(row["speed_by_depth"].size(), 3u);
    EXPECT_EQ(row["tasks"]["needle"]["grid"].size(), 60u);
    EXPECT_EQ(row["tasks"]["needle"]["lengths"][3], 2046);
    EXPECT_EQ(DecodeFloats(row["kld_of_positions"]).size(), 3069u);
  }
  // Not asked for is null, not a score.
  const nlohmann::json bare = nlohmann::json::parse(ReportJson(SampleReport(false, false)));
  EXPECT_TRUE(bare["results"][1]["tasks"]["copy"].is_null());
  EXPECT_EQ(json["results"][3]["versus_reference"]["verdict"], "worse");
  EXPECT_EQ(json["results"][6]["versus_reference"]["verdict"], "not distinguishable");
  EXPECT_TRUE(json["results"][2]["versus_reference"]["verdict"].is_null());  // the reference itself
}

TEST(ReportMarkdown, TasksAndWarningsHaveTheirPlace) {
  const std::string text = ReportMarkdown(SampleReport());
  EXPECT_NE(text.find("|kept of f16|"), std::string::npos);
  EXPECT_NE(text.find("can't tell, x1.01"), std::string::npos);
  EXPECT_NE(ReportMarkdown(SampleReport(false, false)).find("were not measured; --tasks all does"), std::string::npos);
}

TEST(ReportJson, NanIsNullAndCounted) {
  EvalReport report = Example();
  report.quality.caches[1].prefill.kld = {};
  report.quality.caches[1].prefill.kld.mean = std::nan("");
  report.quality.caches[1].prefill.kld.invalid = 7;
  const nlohmann::json json = nlohmann::json::parse(ReportJson(report));
  EXPECT_TRUE(json["results"][1]["kld"]["mean"].is_null());
  EXPECT_EQ(json["results"][1]["kld"]["invalid"], 7);
  EXPECT_NE(ReportMarkdown(report).find("NaN or infinite divergence at 7"), std::string::npos);
}

TEST(ReportMarkdown, TheTableFitsIn120Columns) {
  EvalReport report = Example();
  report.speed.resize(3);
  for (Measurement& speed : report.speed) {
    speed.prefill_tps = 12345.6;
    speed.decode_tps = 123.456;
    speed.peak_rss_bytes = int64_t{98765} << 20;
  }
  for (CacheQuality& cache : report.quality.caches) cache.decode = cache.prefill;
  std::istringstream lines(ReportMarkdown(report));
  int num_rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] != '|') continue;
    const auto columns = std::count_if(line.begin(), line.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; });
    EXPECT_LE(columns, 120) << line;
    ++num_rows;
  }
  EXPECT_EQ(num_rows, 5 + 4);  // two headings and their rules, three caches, two of them judged
  EXPECT_NE(ReportMarkdown(report).find("#1 is k=turbo4,v=turbo3,boundary=2:q8_0"), std::string::npos);
  EXPECT_NE(ReportMarkdown(report).find("0.000233 ±4%"), std::string::npos);
}

TEST(ReportCsv, OneLineARowWithEmptyCellsForWhatWasNotMeasured) {
  std::istringstream lines(ReportCsv(Example()));
  std::string header, line;
  std::getline(lines, header);
  int num_rows = 0;
  while (std::getline(lines, line)) {
    // Names are quoted since they hold commas.
    const size_t end_of_name = line.find('"', 1);
    EXPECT_EQ(std::count(line.begin() + static_cast<long>(end_of_name), line.end(), ','), std::count(header.begin(), header.end(), ','));
    ++num_rows;
  }
  EXPECT_EQ(num_rows, 3);
}

TEST(Measurement, SurvivesTheTripThroughJson) {
  Measurement sent;
  sent.decode_tps = 12.5;
  sent.peak_rss_bytes = 1 << 30;
  StatusOr<Measurement> got = MeasurementFromJson(ToJson(sent));
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->decode_tps, sent.decode_tps);
  EXPECT_EQ(got->peak_rss_bytes, sent.peak_rss_bytes);
  EXPECT_FALSE(got->prefill_tps.has_value());
  EXPECT_FALSE(MeasurementFromJson("oops").ok());
}

}  // namespace
}  // namespace swivel
