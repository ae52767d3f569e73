#include "eval/svg.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace swivel {
namespace {

std::vector<double> Numbered(const Axis& axis) {
  std::vector<double> values;
  for (const Axis::Tick& tick : axis.Ticks()) {
    if (tick.major) values.push_back(tick.value);
  }
  return values;
}

TEST(Axis, MapsEndsAndMiddle) {
  const Axis linear = Axis::Linear(2, 4, 100, 300);
  EXPECT_DOUBLE_EQ(linear.At(2), 100);
  EXPECT_DOUBLE_EQ(linear.At(3), 200);
  const Axis log = Axis::Log(0.01, 100, 400, 0);  // upside down, as y is
  EXPECT_DOUBLE_EQ(log.At(0.01), 400);
  EXPECT_DOUBLE_EQ(log.At(1), 200);
  EXPECT_TRUE(log.Holds(1));
  EXPECT_FALSE(log.Holds(0.001));
}

TEST(Axis, TicksAreRoundAndFew) {
  EXPECT_EQ(Numbered(Axis::Linear(0, 8, 0, 1)), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(Numbered(Axis::Linear(1024, 2047, 0, 1)), (std::vector<double>{1200, 1400, 1600, 1800, 2000}));
  EXPECT_EQ(Numbered(Axis::Log(0.001, 0.1, 0, 1)).size(), 7u);                                            // 1, 2, 5 of two decades
  EXPECT_EQ(Numbered(Axis::Log(1e-5, 1, 0, 1)), (std::vector<double>{1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1}));  // decades only
}

TEST(XAxisSvg, WritesNumbersForPeople) {
  const std::string svg = XAxisSvg(Axis::Log(1e-7, 1, 0, 700), {0, 0, 700, 100}, "a < b");
  EXPECT_NE(svg.find(">1e-7<"), std::string::npos);
  EXPECT_EQ(svg.find("e-0"), std::string::npos);
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_EQ(XAxisSvg(Axis::Linear(0, 8, 0, 1), {0, 0, 1, 1}, "").find("-0<"), std::string::npos);
}

}  // namespace
}  // namespace swivel
