#include "eval/distortion_html.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "eval/label_layout.h"

namespace swivel {
namespace {

DistortionRow Row(const std::string& codec, double bits, double mse) {
  DistortionRow row;
  row.codec = codec;
  row.source = "gaussian";
  row.width = 128;
  row.vectors = 1000;
  row.bits = bits;
  row.mse = mse;
  return row;
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(DistortionHtml, StandsAlone) {
  DistortionRow refused;
  refused.codec = "x<y>&\"z\"";
  refused.source = "gaussian";
  refused.width = 128;
  refused.reason = "not <served>";
  const std::string page = DistortionHtml({Row("turbo3", 3.125, .034), Row("f16", 16, 4e-8), refused}, Target::kPortable);
  for (const char* forbidden : {"http", "<script", "src=", "url(", "@import", "<y>", "<served>", "nan", "inf\""}) {
    EXPECT_EQ(page.find(forbidden), std::string::npos) << forbidden;
  }
  EXPECT_NE(page.find("x&lt;y&gt;&amp;&quot;z&quot;"), std::string::npos);
  EXPECT_NE(page.find("not measured: not &lt;served&gt;"), std::string::npos);
  EXPECT_NE(page.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_NE(page.find("Outside of the chart: f16 (16 bits, 4e-08)"), std::string::npos);
  EXPECT_EQ(Count(page, "role=\"img\""), 1u);
}

TEST(DistortionHtml, AChartForEachSourceAndWidth) {
  std::vector<DistortionRow> rows = {Row("turbo3", 3.125, .034), Row("turbo4", 4.125, .009)};
  rows.push_back(rows[0]);
  rows.back().width = 64;
  rows.push_back(rows[0]);
  rows.back().source = "heavy";
  rows.push_back(rows[0]);
  rows.back().source = "zeros";
  rows.back().mse = 0;  // an exact codec has no place on a logarithmic axis, and takes none
  const std::string page = DistortionHtml(rows, Target::kPortable);
  EXPECT_EQ(Count(page, "role=\"img\""), 3u);
  EXPECT_EQ(Count(page, "<section"), 4u);
  EXPECT_EQ(Count(page, "<title>turbo3: 3.125 bits"), 3u);
  EXPECT_NE(page.find("Outside of the chart: turbo3 (3.12 bits, 0)"), std::string::npos);
}

TEST(DistortionHtml, Families) {
  EXPECT_EQ(CodecFamily("turbo2.5"), "turbo");
  EXPECT_EQ(CodecFamily("turbo"), CodecFamily("turbo4"));
  EXPECT_EQ(CodecFamily("turboprod2_orth"), "turboprod_orth");
  EXPECT_EQ(CodecFamily("q4_0_rot"), "q_0_rot");
  EXPECT_EQ(CodecFamily("polar"), "polar");
}

TEST(PlaceLabels, NoneCoversAnotherOrAPoint) {
  // 36 points, many of them close together, as codecs are in the chart.
  std::vector<LabelRequest> labels;
  for (int i = 0; i < 36; ++i) {
    labels.push_back({100.0 + 130 * (i % 6) + i / 6, 100.0 + 55 * (i % 6) + 12 * (i / 6), 40.0 + 6 * (i % 5), 13});
  }
  const Box area = {70, 16, 900, 500};
  const std::vector<LabelPlace> places = PlaceLabels(labels, area, 6, {});
  ASSERT_EQ(places.size(), labels.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const Box& box = places[i].box;
    EXPECT_NEAR(box.right - box.left, labels[i].width, 1e-9);
    EXPECT_TRUE(box.left >= area.left && box.right <= area.right && box.top >= area.top && box.bottom <= area.bottom) << i;
    for (size_t j = 0; j < places.size(); ++j) {
      if (j != i) {
        EXPECT_FALSE(box.Overlaps(places[j].box)) << i << " " << j;
      }
      EXPECT_FALSE(box.Overlaps({labels[j].x - 6, labels[j].y - 6, labels[j].x + 6, labels[j].y + 6})) << i << " " << j;
    }
  }
}

TEST(PlaceLabels, ALonelyPointHasItsNameOnTheRight) {
  const std::vector<LabelPlace> places = PlaceLabels({{400, 200, 50, 13}}, {0, 0, 900, 500}, 5, {});
  EXPECT_GT(places[0].box.left, 405);
  EXPECT_LT(places[0].box.left, 415);
  EXPECT_FALSE(places[0].needs_line);
  // A chart that is too small for it still gives it a place.
  EXPECT_EQ(PlaceLabels({{5, 5, 50, 13}}, {0, 0, 10, 10}, 5, {}).size(), 1u);
}

}  // namespace
}  // namespace swivel
