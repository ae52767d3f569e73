// polar against PolarQuant's definition: angles by atan2, radii exact, distortion of the published setting.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "codec/test_rows.h"
#include "math/rotation.h"

namespace swivel {
namespace {

using std::numbers::pi;

const Codec& Polar() { return **FindCodec("polar"); }

// Centroids as the research notes of the paper's setting print them (radians); level 1 has the middles of 16 sectors.
constexpr double kCentroids[3][4] = {
    {.30976, .63398, .93681, 1.26104}, {.42625, .67439, .89641, 1.14454}, {.52422, .70591, .86488, 1.04658}};

// Quantises a block of 16 as the paper describes it, in double precision.
void PaperBlock(const float* y, double* out) {
  double radius[16], angle[15];
  for (int i = 0; i < 16; ++i) radius[i] = y[i];
  int at = 0;
  for (int level = 1, pairs = 8; level <= 4; ++level, pairs /= 2) {
    for (int j = 0; j < pairs; ++j) {
      double psi = std::atan2(radius[2 * j + 1], radius[2 * j]);
      if (level == 1) {
        psi = psi < 0 ? psi + 2 * pi : psi;
        angle[at++] = (std::floor(psi / (pi / 8)) + 0.5) * pi / 8;
      } else {
        const double* book = kCentroids[level - 2];
        angle[at++] = *std::min_element(book, book + 4, [&](double a, double b) { return std::fabs(psi - a) < std::fabs(psi - b); });
      }
      radius[j] = std::hypot(radius[2 * j], radius[2 * j + 1]);
    }
  }
  // Down again: the angles of level 4 stand last.
  out[0] = radius[0];
  for (int level = 4, pairs = 1; level >= 1; --level, pairs *= 2) {
    at -= pairs;
    for (int j = pairs - 1; j >= 0; --j) {
      const double r = out[j];
      out[2 * j] = r * std::cos(angle[at + j]);
      out[2 * j + 1] = r * std::sin(angle[at + j]);
    }
  }
}

TEST(Polar, DecodesToWhatThePaperDescribes) {
  for (int width : test_rows::kWidths) {
    SCOPED_TRACE("width " + std::to_string(width) + ", seed 91");
    Random random(91);
    for (int token : {0, 1, 77, 127}) {
      const std::vector<float> row = test_rows::GaussianRow(random, width, 0.1);
      std::vector<uint8_t> group(Polar().group_bytes(width));
      Polar().encode(row.data(), width, Side::kKey, ScaleMode::kMatched, group.data(), token);
      std::vector<float> back(width), y = row;
      Polar().decode_in_frame(group.data(), width, Side::kKey, token, back.data());
      Rotate(Frame::kSignedHadamard, y.data(), width);
      for (int block = 0; block < width; block += 16) {
        double expected[16], radius = 0.0;
        PaperBlock(y.data() + block, expected);
        for (double x : expected) radius += x * x;
        for (int i = 0; i < 16; ++i) ASSERT_NEAR(back[block + i], expected[i], 0x1p-8 * std::sqrt(radius)) << block + i;
      }
    }
  }
}

TEST(Polar, DistortionIsTheKnownOneAtEveryWidth) {
  for (int width : {64, 80, 128, 192}) {
    SCOPED_TRACE("width " + std::to_string(width) + ", seed 92");
    Random random(92);
    double sum = 0.0;
    constexpr int kRows = 4000;
    for (int i = 0; i < kRows; ++i) {
      const std::vector<float> row = test_rows::UnitRow(random, width);
      sum +=
          test_rows::SquaredDistance(row, test_rows::RoundTrip(Polar(), row, i % 2 == 0 ? Side::kKey : Side::kValue, ScaleMode::kMatched));
    }
    EXPECT_NEAR(sum / kRows, .0321, 0.015 * .0321);
  }
}

// Nothing is lost in a radius: the norm of every block of 16 is kept to the rounding of its 16 bits.
TEST(Polar, RadiiAreKept) {
  Random random(93);
  for (int width : {32, 96, 576}) {
    const std::vector<float> row = test_rows::GaussianRow(random, width, 1e5);
    EXPECT_NEAR(test_rows::Norm(test_rows::RoundTrip(Polar(), row, Side::kKey, ScaleMode::kMatched)) / test_rows::Norm(row), 1.0,
                0x1p-9 + 1e-6);
  }
}

}  // namespace
}  // namespace swivel
