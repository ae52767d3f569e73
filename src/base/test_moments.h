// What the tests of Gaussian draws share.
#ifndef SWIVEL_BASE_TEST_MOMENTS_H_
#define SWIVEL_BASE_TEST_MOMENTS_H_

#include <gtest/gtest.h>

namespace swivel {

// A million draws have the mean, the variance and the fourth moment of N(0,1); draw(i) gives the i-th.
template <class Draw>
void ExpectGaussianMoments(Draw draw) {
  double sum = 0.0, squares = 0.0, fourth = 0.0;
  constexpr int kDraws = 1000000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = draw(i);
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 0.004);
  EXPECT_NEAR(squares / kDraws, 1.0, 0.006);
  EXPECT_NEAR(fourth / kDraws, 3.0, 0.04);
}

}  // namespace swivel

#endif  // SWIVEL_BASE_TEST_MOMENTS_H_
