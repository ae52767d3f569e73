// What `swivel calibrate` writes, or a cache that keeps its own calibration, and a cache reads: the moments of every KV head of one model.
// docs/formats.md has the bytes.
//
// Moments are kept, not transforms: what is made of them (which kind, how much shrunk) stays a choice of the reader, and files can be
// merged.
#ifndef SWIVEL_CALIBRATE_CALIBRATION_FILE_H_
#define SWIVEL_CALIBRATE_CALIBRATION_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "calibrate/moments.h"

namespace swivel {

struct LayerMoments {
  int layer = 0;  // llama.cpp's number of the block
  int width = 0;  // of a head's keys
  std::vector<HeadMoments> heads;
};

struct Calibration {
  uint64_t fingerprint = 0;  // of the model: gguf/fingerprint.h
  std::string description;   // UTF-8, for people: model and texts
  bool group_means = true;   // of all heads
  bool self = false;         // the first tokens of a context, kept by store=; not a run of `swivel calibrate`
  int chunk_tokens = 0;
  int num_chunks = 0;                // that were run
  int planned_chunks = 0;            // more than num_chunks: the calibration was interrupted
  int64_t num_tokens = 0;            // that were run
  uint64_t text_hash = 0;            // of the token ids of all planned chunks
  std::vector<LayerMoments> layers;  // rising numbers

  // Null when the layer has no cache of its own, or the file lacks it.
  const LayerMoments* Find(int layer) const;
};

// Bounds on what is read and written.
inline constexpr int kMostCalibrationLayers = 4096, kMostCalibrationHeads = 1024, kMostCalibrationWidth = 1024;
inline constexpr size_t kMostDescriptionBytes = 4096;

// Moments are rounded to float. The content must be within the bounds above; a longer description is cut.
std::string CalibrationBytes(const Calibration& calibration);

// Errors: kInvalidArgument for other files, truncated or damaged ones (length, checksum, sizes, values that are no moments), kUnsupported
// for another version. The message is a sentence without a subject ("is not …"). Memory is bounded by four times the bytes.
StatusOr<Calibration> ParseCalibration(std::string_view bytes);

// Moments as they come back from a file: rounded to float.
HeadMoments AsInFile(HeadMoments moments);

// The same for files; messages begin with the path. Writing replaces the file at once or not at all, or, with kKeepFile, makes a new one or
// nothing (kInvalidArgument: there is one already); its folder must exist.
enum class FileThere { kReplaceFile, kKeepFile };
StatusOr<Calibration> ReadCalibration(const std::string& path);
Status WriteCalibration(const std::string& path, const Calibration& calibration, FileThere there = FileThere::kReplaceFile);

// kInvalidArgument, with what to do, when the file is that of another model.
Status CheckModel(const Calibration& calibration, const std::string& path, uint64_t fingerprint);

// Where calibrations are looked for when none is named: $XDG_CACHE_HOME/swivel/calibration/<fingerprint>.swivel, with ~/.cache where that
// is not set. Reads the environment. Empty when neither HOME nor XDG_CACHE_HOME is set.
std::string DefaultCalibrationPath(uint64_t fingerprint);

}  // namespace swivel

#endif  // SWIVEL_CALIBRATE_CALIBRATION_FILE_H_
