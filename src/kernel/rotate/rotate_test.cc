// Rotation kernels of every target: bit-exact with the scalar definition, nothing outside the row.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "codec/test_rows.h"
#include "kernel/kernels.h"

namespace swivel {
namespace {

constexpr Frame kFrames[] = {Frame::kNone,   Frame::kHadamard, Frame::kHadamard64, Frame::kSignedHadamard,
                             Frame::kPlanar, Frame::kIsoFast,  Frame::kIsoFull,    Frame::kRotor};

void ExpectSameBits(const std::vector<float>& actual, const std::vector<float>& expected, const std::string& what) {
  for (size_t i = 0; i < actual.size(); ++i) {
    // A NaN's payload is the processor's affair.
    if (std::isnan(actual[i]) && std::isnan(expected[i])) continue;
    ASSERT_EQ(std::memcmp(&actual[i], &expected[i], sizeof(float)), 0)
        << what << " coordinate " << i << ": " << std::hexfloat << actual[i] << " instead of " << expected[i];
  }
}

class RotateKernel : public testing::TestWithParam<Target> {
 protected:
  // Runs a kernel on a row that starts `offset` floats behind an aligned address, between guards.
  std::vector<float> Run(void (*kernel)(Frame, float*, int), Frame frame, const std::vector<float>& row, int offset) {
    constexpr float kGuard = -123.25f;
    const int width = static_cast<int>(row.size());
    std::vector<float> memory(width + 64, kGuard);
    float* at = memory.data() + 16 + offset;
    std::copy(row.begin(), row.end(), at);
    kernel(frame, at, width);
    for (float* p = memory.data(); p < memory.data() + memory.size(); ++p) {
      if (p >= at && p < at + width) continue;
      EXPECT_EQ(*p, kGuard) << "outside the row, " << p - at;
    }
    return {at, at + width};
  }

  void CheckRow(Frame frame, const std::vector<float>& row, int offset, const std::string& what) {
    const Kernels& kernels = KernelsFor(GetParam());
    std::vector<float> rotated = row, inverse = row;
    Rotate(frame, rotated.data(), static_cast<int>(row.size()));
    InverseRotate(frame, inverse.data(), static_cast<int>(row.size()));
    ExpectSameBits(Run(kernels.rotate, frame, row, offset), rotated, what + " rotate");
    ExpectSameBits(Run(kernels.inverse_rotate, frame, row, offset), inverse, what + " inverse");
  }
};

TEST_P(RotateKernel, IsBitExactWithTheScalarDefinition) {
  constexpr uint64_t kSeed = 61;
  Random random(kSeed);
  for (Frame frame : kFrames) {
    for (int width = 16; width <= kMaxRotationWidth; width += 16) {
      if (frame == Frame::kHadamard64 && width % 64 != 0) continue;
      SCOPED_TRACE("frame " + std::to_string(static_cast<int>(frame)) + " width " + std::to_string(width) + " seed " +
                   std::to_string(kSeed));
      for (int i = 0; i < 5; ++i) CheckRow(frame, test_rows::GaussianRow(random, width), i, "row " + std::to_string(i));
      for (const test_rows::NamedRow& named : test_rows::FiniteAdversaries(width < 32 ? 32 : width, kSeed)) {
        if (static_cast<int>(named.row.size()) == width) CheckRow(frame, named.row, 1, named.name);
      }
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(RotateKernel, KeepsDamageVisible) {
  for (Frame frame : {Frame::kHadamard, Frame::kSignedHadamard, Frame::kPlanar, Frame::kIsoFast, Frame::kIsoFull, Frame::kRotor}) {
    for (int width : {32, 80, 128}) {
      for (const test_rows::NamedRow& named : test_rows::DamagedRows(width, 62)) CheckRow(frame, named.row, 0, named.name);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RotateKernel, testing::ValuesIn(SupportedTargets()),
                         [](const testing::TestParamInfo<Target>& target) { return std::string(TargetName(target.param)); });

}  // namespace
}  // namespace swivel
