#include "math/rotation.h"

#include <cmath>

#include "base/random.h"
#include "math/block_rotation.h"

namespace swivel {
namespace {

// Unnormalised Walsh-Hadamard transform of n values (a power of two), strides 1, 2, 4, …
void Butterflies(float* x, int n) {
  for (int stride = 1; stride < n; stride *= 2) {
    for (int start = 0; start < n; start += 2 * stride) {
      for (int i = start; i < start + stride; ++i) {
        const float a = x[i];
        const float b = x[i + stride];
        x[i] = a + b;
        x[i + stride] = a - b;
      }
    }
  }
}

void HadamardBlocks(float* row, int width, int block) {
  const float norm = 1.0f / std::sqrt(static_cast<float>(block));
  for (int start = 0; start < width; start += block) {
    Butterflies(row + start, block);
    for (int i = start; i < start + block; ++i) row[i] *= norm;
  }
}

// O_m across the m = width / block blocks: x_b -= (2/m) sum_b' x_b'. Its own inverse.
void ReflectAcrossBlocks(float* row, int width, int block) {
  const int m = width / block;
  if (m == 1) return;
  const float factor = 2.0f / static_cast<float>(m);
  for (int i = 0; i < block; ++i) {
    float sum = row[i];
    for (int b = 1; b < m; ++b) sum += row[i + b * block];
    const float shift = sum * factor;
    for (int b = 0; b < m; ++b) row[i + b * block] -= shift;
  }
}

void ApplySigns(float* row, int width) {
  for (int i = 0; i < width; ++i) row[i] *= kRotationSigns[i];
}

}  // namespace

// One bit of SplitMix64 a coordinate; the seed is part of the format.
constinit const std::array<float, kMaxRotationWidth> kRotationSigns = [] {
  std::array<float, kMaxRotationWidth> signs{};
  for (int i = 0; i < kMaxRotationWidth; ++i) {
    signs[i] = (SplitMix64(0x5377697665ull + static_cast<uint64_t>(i)) >> 63) != 0 ? -1.0f : 1.0f;
  }
  return signs;
}();

const char* FrameName(Frame frame) {
  switch (frame) {
    case Frame::kNone:
      return "none";
    case Frame::kHadamard:
      return "hadamard";
    case Frame::kHadamard64:
      return "hadamard64";
    case Frame::kSignedHadamard:
      return "signs+hadamard";
    case Frame::kPlanar:
      return "planar";
    case Frame::kIsoFast:
      return "iso_fast";
    case Frame::kIsoFull:
      return "iso_full";
    case Frame::kRotor:
      return "rotor";
  }
  return "unknown";
}

int HadamardBlock(Frame frame, int width) { return frame == Frame::kHadamard64 ? 64 : width & -width; }

void Rotate(Frame frame, float* row, int width) {
  if (frame == Frame::kNone) return;
  if (frame > Frame::kSignedHadamard) return RotateBlocks(frame, row, width);
  const int block = HadamardBlock(frame, width);
  if (frame == Frame::kSignedHadamard) ApplySigns(row, width);
  HadamardBlocks(row, width, block);
  if (frame == Frame::kSignedHadamard) ReflectAcrossBlocks(row, width, block);
}

void InverseRotate(Frame frame, float* row, int width) {
  if (frame == Frame::kNone) return;
  if (frame > Frame::kSignedHadamard) return InverseRotateBlocks(frame, row, width);
  const int block = HadamardBlock(frame, width);
  if (frame == Frame::kSignedHadamard) ReflectAcrossBlocks(row, width, block);
  HadamardBlocks(row, width, block);
  if (frame == Frame::kSignedHadamard) ApplySigns(row, width);
}

}  // namespace swivel
