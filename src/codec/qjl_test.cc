// qjl and turboprod against the formulas of their papers and the variance that theory gives them.
#include "codec/qjl.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/half.h"
#include "codec/test_rows.h"
#include "math/codebook.h"
#include "math/rotation.h"

namespace swivel {
namespace {

using test_rows::Dot;
using test_rows::Norm;

struct Scheme {
  const char* name;
  Projection projection;
  int code_bits;  // of the part before the signs; 0: none
};
constexpr Scheme kSchemes[] = {{"qjl", Projection::kGaussian, 0},
                               {"turboprod2", Projection::kGaussian, 1},
                               {"turboprod3", Projection::kGaussian, 2},
                               {"turboprod4", Projection::kGaussian, 3},
                               {"qjl_orth", Projection::kOrthogonal, 0},
                               {"turboprod2_orth", Projection::kOrthogonal, 1},
                               {"turboprod3_orth", Projection::kOrthogonal, 2},
                               {"turboprod4_orth", Projection::kOrthogonal, 3}};

// Distortion of Lloyd-Max codes of 0 … 3 bits on unit vectors of width 128 with the norm as scale (the exact spherical law).
constexpr double kMseDistortion[] = {1.0, .3609, .1160, .0340};

// E |<s, u>| for s of the projection's law, from the Gamma function.
double MeanAbs(Projection projection, int width) {
  if (projection == Projection::kGaussian) return std::sqrt(2 / M_PI);
  return std::exp(std::lgamma(width / 2.0) - std::lgamma((width + 1) / 2.0)) / std::sqrt(M_PI);
}

// Nearest level of the book of `bits`; 0 for no book.
double Nearest(double t, int bits) {
  const std::vector<float> levels = bits == 0   ? std::vector<float>{0.0f}
                                    : bits == 1 ? std::vector<float>(kLloydMax1.begin(), kLloydMax1.end())
                                    : bits == 2 ? std::vector<float>(kLloydMax2.begin(), kLloydMax2.end())
                                                : std::vector<float>(kLloydMax3.begin(), kLloydMax3.end());
  double best = levels[0];
  for (float level : levels) best = std::fabs(t - level) < std::fabs(t - best) ? level : best;
  return best;
}

// A root mean square as the row keeps it.
double Stored(double rms) { return F32FromScale(ScaleFromF32(static_cast<float>(rms))); }

// The papers' score of one key, in double precision but for the 16-bit norms: <q, y~> + ||r|| / (w E|<s,u>|) <S q, sign(S r)>.
double PaperScore(const Scheme& scheme, const std::vector<float>& q, const std::vector<float>& k) {
  const int width = static_cast<int>(k.size());
  std::vector<float> rotated_q = q, y = k;
  if (scheme.code_bits > 0) {
    Rotate(Frame::kSignedHadamard, rotated_q.data(), width);
    Rotate(Frame::kSignedHadamard, y.data(), width);
  }
  const double unit = Stored(Norm(y) / std::sqrt(width));
  const double exact_unit = Norm(y) / std::sqrt(width);
  double score = 0.0;
  std::vector<double> rest(width);
  double rest_norm2 = 0.0;
  for (int i = 0; i < width; ++i) {
    const double coded = unit * Nearest(y[i] / exact_unit, scheme.code_bits);
    score += rotated_q[i] * coded;
    rest[i] = y[i] - coded;
    rest_norm2 += rest[i] * rest[i];
  }
  const ProjectionMatrix s = GetProjection(scheme.projection, width);
  double signed_sum = 0.0;
  for (int i = 0; i < width; ++i) {
    double projected = 0.0, projected_q = 0.0;
    for (int n = 0; n < width; ++n) {
      projected += s.row(i)[n] * rest[n];
      projected_q += static_cast<double>(s.row(i)[n]) * rotated_q[n];
    }
    signed_sum += projected >= 0.0 ? projected_q : -projected_q;
  }
  const double rest_norm = std::sqrt(width) * Stored(std::sqrt(rest_norm2 / width));
  return score + rest_norm / (width * MeanAbs(scheme.projection, width)) * signed_sum;
}

TEST(Qjl, ProductsWithDecodedKeysAreTheScoresOfThePapers) {
  for (const Scheme& scheme : kSchemes) {
    for (int width : {32, 80, 112, 128, 192}) {
      SCOPED_TRACE(std::string(scheme.name) + " width " + std::to_string(width) + ", seed 81");
      Random random(81);
      for (int i = 0; i < 20; ++i) {
        const std::vector<float> k = test_rows::GaussianRow(random, width, 0.3), q = test_rows::GaussianRow(random, width);
        const double score = Dot(q, test_rows::RoundTrip(**FindCodec(scheme.name), k, Side::kKey, ScaleMode::kMatched));
        ASSERT_NEAR(score, PaperScore(scheme, q, k), 1e-5 * Norm(q) * Norm(k)) << i;
      }
    }
  }
}

struct Moments {
  double along = 0.0, along_error = 0.0;  // mean of <x, x~> / ||x||^2 and its standard error
  double across = 0.0;                    // mean of d Var <q, x~> over unit q orthogonal to x: d / (d - 1) ||x~ - p x||^2
};

Moments Measure(const char* name, int width, Side side, int num_rows, uint64_t seed) {
  Random random(seed);
  Moments moments;
  double squares = 0.0;
  for (int i = 0; i < num_rows; ++i) {
    // Norms vary, so that the rounding of the stored norm is fair too.
    const std::vector<float> row = test_rows::UnitRow(random, width, std::exp2(random.Uniform()));
    const std::vector<float> back = test_rows::RoundTrip(**FindCodec(name), row, side, ScaleMode::kMatched, i % kGroupTokens);
    const double p = Dot(row, back) / Dot(row, row);
    moments.along += p / num_rows;
    squares += p * p / num_rows;
    moments.across += (Dot(back, back) / Dot(row, row) - p * p) * width / (width - 1) / num_rows;
  }
  moments.along_error = std::sqrt((squares - moments.along * moments.along) / num_rows);
  return moments;
}

// d times the variance of an inner product with a unit query orthogonal to the key. Rows of S are independent when Gaussian, which gives
// E ||x~||^2 = pi/2 + (d - 1)/d of the residual; orthonormal ones give exactly 1 / (d E|<s,u>|^2).
TEST(Qjl, VarianceIsWhatTheoryGives) {
  constexpr int kWidth = 128;
  for (const Scheme& scheme : kSchemes) {
    SCOPED_TRACE(std::string(scheme.name) + ", seed 82");
    const double mean_abs = MeanAbs(scheme.projection, kWidth);
    const double of_residual = scheme.projection == Projection::kGaussian
                                   ? M_PI / 2 - 1.0 / kWidth
                                   : (1 / (kWidth * mean_abs * mean_abs) - 1) * kWidth / (kWidth - 1);
    const double expected = of_residual * kMseDistortion[scheme.code_bits];
    const double measured = Measure(scheme.name, kWidth, Side::kKey, 6000, 82).across;
    EXPECT_NEAR(measured, expected, 0.015 * expected);
    RecordProperty(scheme.name, std::to_string(measured));
  }
}

// Averaged over rotations of the row, a fixed S scales the signed part by mean ||S_i|| E|<u,u'>| / E|<s,u>|: exactly 1 for orthonormal
// rows, and 1 up to the luck of the seed (.7 / w, one standard deviation) for a Gaussian S. Four standard errors.
TEST(Qjl, EstimatesHaveNoBiasBeyondTheLengthOfTheRowsOfS) {
  for (const Scheme& scheme : kSchemes) {
    for (int width : {32, 80, 128}) {
      SCOPED_TRACE(std::string(scheme.name) + " width " + std::to_string(width) + ", seed 83");
      const ProjectionMatrix s = GetProjection(scheme.projection, width);
      double length = 0.0;
      for (int i = 0; i < width; ++i) {
        double norm2 = 0.0;
        for (int n = 0; n < width; ++n) norm2 += static_cast<double>(s.row(i)[n]) * s.row(i)[n];
        length += std::sqrt(norm2) / width;
      }
      const double gain = length * MeanAbs(Projection::kOrthogonal, width) / MeanAbs(scheme.projection, width);
      const Moments keys = Measure(scheme.name, width, Side::kKey, 3000, 83);
      // The share of the row that the signs carry: what the codes leave.
      const double left = scheme.code_bits == 0 ? 1.0 : 1.0 - Measure(scheme.name, width, Side::kValue, 3000, 83).along;
      EXPECT_NEAR(keys.along, 1.0 + (gain - 1.0) * left, 4 * keys.along_error);
      EXPECT_NEAR(gain, 1.0, scheme.projection == Projection::kOrthogonal ? 1e-6 : 4 / std::sqrt(2.0) / width);
      // What the value side keeps is biased, which is why the papers add the signs.
      if (scheme.code_bits > 0 && width >= 80) {
        EXPECT_NEAR(left, kMseDistortion[scheme.code_bits], 0.12 * kMseDistortion[scheme.code_bits]);
      }
    }
  }
}

// The estimator itself, over S: for one key and query, the mean over matrices of other seeds is the product. The codec's formula with
// its factor, 400 matrices.
TEST(Qjl, MeanOverManyGaussianMatricesIsTheProduct) {
  constexpr int kWidth = 32, kMatrices = 400;
  Random random(84);
  const std::vector<float> k = test_rows::UnitRow(random, kWidth), q = test_rows::UnitRow(random, kWidth);
  double sum = 0.0, squares = 0.0;
  for (int matrix = 0; matrix < kMatrices; ++matrix) {
    double score = 0.0;
    for (int i = 0; i < kWidth; ++i) {
      double sk = 0.0, sq = 0.0;
      for (int n = 0; n < kWidth; ++n) {
        const double entry =
            ReproducibleNormal(1000 + static_cast<uint64_t>(matrix), static_cast<uint64_t>(i) * kWidth + static_cast<uint64_t>(n));
        sk += entry * k[n];
        sq += entry * q[n];
      }
      score += (sk >= 0.0 ? sq : -sq) / (kWidth * MeanAbsProjection(Projection::kGaussian, kWidth));
    }
    sum += score / kMatrices;
    squares += score * score / kMatrices;
  }
  const double variance = squares - sum * sum;
  EXPECT_NEAR(sum, Dot(q, k), 4 * std::sqrt(variance / kMatrices)) << "seed 84";
  // Var = (pi/2 - <q,k>^2) / m for unit vectors.
  EXPECT_NEAR(variance, (M_PI / 2 - Dot(q, k) * Dot(q, k)) / kWidth, 0.25 * M_PI / 2 / kWidth) << "seed 84";
}

TEST(TurboProd, ValuesAreTheCodesAlone) {
  for (const Scheme& scheme : kSchemes) {
    if (scheme.code_bits == 0) continue;
    for (int width : {48, 128}) {
      SCOPED_TRACE(std::string(scheme.name) + " width " + std::to_string(width) + ", seed 85");
      Random random(85);
      const std::vector<float> row = test_rows::GaussianRow(random, width, 2.0);
      std::vector<float> y = row;
      Rotate(Frame::kSignedHadamard, y.data(), width);
      const double unit = Norm(y) / std::sqrt(width);
      for (float& x : y) x = static_cast<float>(unit * Nearest(x / unit, scheme.code_bits));
      InverseRotate(Frame::kSignedHadamard, y.data(), width);
      const std::vector<float> value = test_rows::RoundTrip(**FindCodec(scheme.name), row, Side::kValue, ScaleMode::kMatched);
      for (int i = 0; i < width; ++i) ASSERT_NEAR(value[i], y[i], 0x1p-8 * unit) << i;
      EXPECT_NE(value, test_rows::RoundTrip(**FindCodec(scheme.name), row, Side::kKey, ScaleMode::kMatched));
    }
  }
}

}  // namespace
}  // namespace swivel
