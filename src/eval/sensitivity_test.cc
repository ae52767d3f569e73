#include "eval/sensitivity.h"

#include <gtest/gtest.h>

#include <string>

#include "eval/report_charts.h"
#include "eval/report_html.h"
#include "eval/test_report.h"

namespace swivel {
namespace {

TEST(Sensitivity, OnlyOneSideOfOneLayerIsPacked) {
  const CacheSpec spec = *ParseSpec("balanced,v=tcq2,boundary=2:q8_0,layer=5:k=tcq4");
  constexpr int kLayers = 12;
  for (const Side side : {Side::kKey, Side::kValue}) {
    for (int layer = 0; layer < kLayers; ++layer) {
      const CacheSpec only = OnlyLayer(spec, side, layer, kLayers);
      for (const Side other : {Side::kKey, Side::kValue}) {
        for (int l = 0; l < kLayers; ++l) {
          const bool packed = other == side && l == layer;
          EXPECT_EQ(only.CodecFor(other, l, kLayers), packed ? spec.CodecFor(side, layer, kLayers) : CodecId::kF16) << layer << " " << l;
        }
      }
      EXPECT_EQ(only.transform, spec.transform);
      EXPECT_EQ(only.sinks, spec.sinks);
      EXPECT_TRUE(ParseSpec(only.ToString()).ok()) << only.ToString();
    }
  }
}

TEST(Sensitivity, RefusesWhatMeansNothingInOneLayer) {
  EXPECT_TRUE(ParseSensitivitySpec("balanced").ok());
  for (const char* kv : {"balanced,budget=64M", "tcq4,transform=wht,decay=4096:3", "turbo9"}) {
    EXPECT_EQ(ParseSensitivitySpec(kv).status().code(), StatusCode::kInvalidArgument) << kv;
  }
}

TEST(Sensitivity, TheChartHasACellForEachSideAndLayer) {
  LayerSensitivity sensitivity;
  EXPECT_EQ(SensitivityChart(sensitivity), "");
  sensitivity.kv = "balanced";
  sensitivity.k = {0.1, 0.001, std::nullopt};
  sensitivity.v = {0.01, 0.0, 0.002};
  const std::string svg = SensitivityChart(sensitivity);
  for (const char* text : {"layer 0, keys: KLD 0.1<", "layer 2, keys: not measured<", "layer 1, values: KLD 0<", "layer 2, values: KLD 0.002<",
                           "fill-opacity:1.000", "fill-opacity:0.060", "fill-opacity:0.000"}) {
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(Sensitivity, ReportsShowItOnlyWhenItWasMeasured) {
  EvalReport report = SampleReport();
  EXPECT_NE(ReportHtml(report).find("id=\"layers\""), std::string::npos);
  EXPECT_NE(ReportJson(report).find("\"sensitivity\": {"), std::string::npos);
  EXPECT_NE(ReportMarkdown(report).find("one layer alone"), std::string::npos);
  report.sensitivity = {};
  EXPECT_EQ(ReportHtml(report).find("id=\"layers\""), std::string::npos);
  EXPECT_NE(ReportJson(report).find("\"sensitivity\": null"), std::string::npos);
  EXPECT_EQ(ReportMarkdown(report).find("one layer alone"), std::string::npos);
}

}  // namespace
}  // namespace swivel
