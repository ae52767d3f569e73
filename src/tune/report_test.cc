#include "tune/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include <nlohmann/json.hpp>

namespace swivel {
namespace {

TuneReport Example() {
  TuneReport report;
  report.model = "m.gguf";
  report.limit = "3.25 bits a packed value";
  report.context = 8192;
  report.chunk_tokens = 2048;
  report.problem.limit.bits = 3.25;
  report.problem.layers = {{1, 64, 64, 8192}, {1, 64, 64, 8192}};
  report.problem.chunks = 2;
  report.problem.search_chunks = 1;
  const std::string preset = ParseSpec("balanced")->ToString(), other = ParseSpec("balanced,transform=eq")->ToString();
  const std::string third = ParseSpec("balanced,sinks=16")->ToString();
  for (const auto& [spec, change] : {std::pair(preset, "preset balanced"), std::pair(other, "transform=eq"), std::pair(third, "sinks=16")}) {
    report.rows.push_back({"widths", spec, change, CostOf(ParseSpec(spec).value(), report.problem.layers), true});
  }
  for (int chunk : {0, 1}) {
    std::vector<float> values(512);
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.02f + 0.01f * std::sin(static_cast<float>(i));
    report.results.Add(preset, chunk, values);
    for (float& value : values) value *= 0.5f;
    report.results.Add(other, chunk, values);
  }
  report.results.Add(third, 0, std::vector<float>(512, std::nanf("")));
  report.outcome.spec = other;
  report.outcome.preset = "balanced";
  report.outcome.preset_spec = preset;
  report.outcome.kld = report.results.Mean(other, 1, 1);
  report.outcome.preset_kld = report.results.Mean(preset, 1, 1);
  report.outcome.reason = "a reason";
  return report;
}

TEST(TuneReport, TableForPeople) {
  const std::string text = TuneMarkdown(Example());
  for (const char* part : {"|transform=eq **<**|", "0.50 better", "NaN", "a reason.", "Limit: 3.25 bits", "of 8192 tokens", "preset balanced 0.02"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(TuneReport, JsonHoldsEverything) {
  const auto json = nlohmann::json::parse(TuneJson(Example()));
  EXPECT_EQ(json["chosen"]["spec"], ParseSpec("balanced,transform=eq")->ToString());
  EXPECT_EQ(json["chosen"]["preset"], "balanced");
  ASSERT_EQ(json["tried"].size(), 3u);
  EXPECT_TRUE(json["tried"][0]["versus_preset"].is_null());
  EXPECT_EQ(json["tried"][1]["versus_preset"]["verdict"], "better");
  EXPECT_NEAR(json["tried"][1]["versus_preset"]["ratio"].get<double>(), 0.5, 1e-6);
  EXPECT_TRUE(json["tried"][2]["kld"].is_null());
  EXPECT_TRUE(json["tried"][2]["confirm_kld"].is_null());
}

TEST(TuneReport, CsvHasAFieldForEachColumn) {
  const std::string text = TuneCsv(Example());
  const auto fields = [](const std::string& line) {
    int count = 1;
    bool quoted = false;
    for (char c : line) {
      if (c == '"') quoted = !quoted;
      if (c == ',' && !quoted) ++count;
    }
    return count;
  };
  size_t start = 0;
  int lines = 0;
  for (size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1, ++lines) {
    EXPECT_EQ(fields(text.substr(start, end - start)), 14) << text.substr(start, end - start);
  }
  EXPECT_EQ(lines, 4);
}

}  // namespace
}  // namespace swivel
