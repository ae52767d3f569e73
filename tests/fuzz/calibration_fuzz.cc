// The reader of calibration files on damaged ones: a Status or a calibration, never a crash and never more memory than the bytes warrant.
#include <cstring>
#include <string>

#include "base/hash.h"
#include "calibrate/calibration_file.h"
#include "calibrate/transform.h"
#include "fuzz.h"

namespace {

// Two layers of small heads; made when the program starts, since the file ends in a checksum.
const std::string& Valid() {
  static const std::string bytes = [] {
    swivel::Calibration calibration;
    calibration.description = "m";
    calibration.chunk_tokens = 64;
    calibration.num_chunks = calibration.planned_chunks = 1;
    calibration.num_tokens = 64;
    for (int layer : {0, 2}) {
      swivel::HeadMoments head = swivel::EmptyMoments(16, true);
      head.num_keys = 60;
      head.key_weight = head.key_weight_squares = 60;
      for (size_t i = 0; i < 16; ++i) head.key_covariance[17 * i] = head.query_moment[17 * i] = 1;
      calibration.layers.push_back({layer, 16, {head}});
    }
    return swivel::CalibrationBytes(calibration);
  }();
  return bytes;
}

void Check(const std::string& bytes) {
  const swivel::StatusOr<swivel::Calibration> read = swivel::ParseCalibration(bytes);
  if (!read.ok()) {
    FUZZ_CHECK(!read.status().message().empty());
    return;
  }
  // What was read can be written, to the same bytes.
  FUZZ_CHECK(swivel::CalibrationBytes(read.value()) == bytes);
  for (const swivel::LayerMoments& layer : read.value().layers) {
    for (const swivel::HeadMoments& head : layer.heads) {
      if (layer.width > 64) continue;
      const auto transform = swivel::MakeTransform(head, swivel::TransformKind::kFull, .5, true, true);
      FUZZ_CHECK(transform.ok() || !transform.status().message().empty());
    }
  }
}

}  // namespace

const FuzzSeed kFuzzSeeds[] = {{reinterpret_cast<const uint8_t*>(Valid().data()), Valid().size()}, {nullptr, 0}};

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  Check(bytes);
  // Once more with the length and the checksum put right: they keep damage from everything behind them.
  if (bytes.size() < 32) return 0;
  const uint64_t length = bytes.size();
  std::memcpy(&bytes[16], &length, 8);
  const uint64_t checksum = swivel::Hash64(std::string_view(bytes).substr(0, bytes.size() - 8));
  std::memcpy(&bytes[bytes.size() - 8], &checksum, 8);
  Check(bytes);
  return 0;
}
