#include "calibrate/calibration_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/hash.h"
#include "calibrate/test_windows.h"

namespace swivel {
namespace {

namespace fs = std::filesystem;

HeadMoments RandomMoments(int width, uint64_t seed) {
  test_windows::Rows rows = test_windows::RandomRows(width, 100, 1, 100, seed);
  HeadMoments moments = EmptyMoments(width, true);
  EXPECT_TRUE(AddWindow(rows.window, &moments).ok());
  return moments;
}

Calibration Example() {
  Calibration calibration;
  calibration.fingerprint = 0x0123456789abcdef;
  calibration.text_hash = 77;
  calibration.description = "a model, and a text with an ä";
  calibration.chunk_tokens = 2048;
  calibration.num_chunks = 3;
  calibration.planned_chunks = 8;
  calibration.num_tokens = 3 * 2048;
  calibration.layers = {{0, 16, {RandomMoments(16, 1), RandomMoments(16, 2)}}, {5, 48, {RandomMoments(48, 3)}}};
  return calibration;
}

// A changed file whose size and checksum are right again.
std::string Signed(std::string bytes) {
  const uint64_t size = bytes.size();
  std::memcpy(&bytes[16], &size, 8);
  const uint64_t checksum = Hash64(std::string_view(bytes).substr(0, bytes.size() - 8));
  std::memcpy(&bytes[bytes.size() - 8], &checksum, 8);
  return bytes;
}

class TemporaryFolder {
 public:
  TemporaryFolder() : path_(fs::temp_directory_path() / ("swivel-calibration-" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  std::string File(const std::string& name) const { return (path_ / name).string(); }
  size_t NumFiles() const { return static_cast<size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator())); }

 private:
  fs::path path_;
};

void ExpectRefusal(const StatusOr<Calibration>& result, StatusCode code, const std::string& part) {
  ASSERT_FALSE(result.ok()) << part;
  EXPECT_EQ(result.status().code(), code);
  EXPECT_NE(result.status().message().find(part), std::string::npos) << result.status().message();
}

TEST(CalibrationFile, ReadsWhatItWrote) {
  const TemporaryFolder folder;
  const std::string path = folder.File("m.swivel");
  const Calibration written = Example();
  ASSERT_TRUE(WriteCalibration(path, Calibration()).ok());
  ASSERT_TRUE(WriteCalibration(path, written).ok());
  EXPECT_EQ(folder.NumFiles(), 1u);
  StatusOr<Calibration> read = ReadCalibration(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->fingerprint, written.fingerprint);
  EXPECT_EQ(read->text_hash, written.text_hash);
  EXPECT_EQ(read->description, written.description);
  EXPECT_EQ(read->chunk_tokens, 2048);
  EXPECT_EQ(read->num_chunks, 3);
  EXPECT_EQ(read->planned_chunks, 8);
  EXPECT_EQ(read->num_tokens, 3 * 2048);
  ASSERT_EQ(read->layers.size(), 2u);
  EXPECT_EQ(read->Find(5), &read->layers[1]);
  EXPECT_EQ(read->Find(1), nullptr);
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(read->layers[i].heads.size(), written.layers[i].heads.size());
    EXPECT_EQ(read->layers[i].width, written.layers[i].width);
    for (size_t h = 0; h < read->layers[i].heads.size(); ++h) {
      const HeadMoments &a = read->layers[i].heads[h], &b = written.layers[i].heads[h];
      EXPECT_TRUE(a.group_means);
      EXPECT_EQ(a.num_keys, b.num_keys);
      EXPECT_EQ(a.key_weight, b.key_weight);
      EXPECT_EQ(a.key_weight_squares, b.key_weight_squares);
      EXPECT_EQ(a.query_weight, b.query_weight);
      for (size_t c = 0; c < b.mean.size(); ++c) EXPECT_EQ(a.mean[c], static_cast<float>(b.mean[c]));
      for (size_t c = 0; c < b.key_covariance.size(); ++c) {
        EXPECT_EQ(a.key_covariance[c], static_cast<float>(b.key_covariance[c]));
        EXPECT_EQ(a.query_moment[c], static_cast<float>(b.query_moment[c]));
      }
    }
  }
  // What was rounded once stays.
  EXPECT_EQ(CalibrationBytes(*read), CalibrationBytes(written));
}

TEST(CalibrationFile, RefusesOtherFilesAndDamage) {
  const std::string right = CalibrationBytes(Example());
  ExpectRefusal(ParseCalibration(""), StatusCode::kInvalidArgument, "not a calibration file");
  ExpectRefusal(ParseCalibration("GGUF and more"), StatusCode::kInvalidArgument, "not a calibration file");
  ExpectRefusal(ParseCalibration(right.substr(0, 30)), StatusCode::kInvalidArgument, "only 30 bytes");
  for (const size_t size : {size_t{80}, right.size() / 2, right.size() - 1}) {
    ExpectRefusal(ParseCalibration(right.substr(0, size)), StatusCode::kInvalidArgument, "should have " + std::to_string(right.size()));
  }
  ExpectRefusal(ParseCalibration(right + "x"), StatusCode::kInvalidArgument, "should have");
  // Every byte behind version and size is covered by the checksum.
  for (size_t at = 24; at < right.size(); at += 97) {
    std::string wrong = right;
    wrong[at] = static_cast<char>(wrong[at] ^ 1);
    ExpectRefusal(ParseCalibration(wrong), StatusCode::kInvalidArgument, "checksum");
  }
}

TEST(CalibrationFile, RefusesWrongContentWithARightChecksum) {
  const std::string right = CalibrationBytes(Example());
  const auto with = [&](size_t at, uint32_t value) {
    std::string bytes = right;
    std::memcpy(&bytes[at], &value, 4);
    return ParseCalibration(Signed(bytes));
  };
  const auto refused = [&](size_t at, uint32_t value, const std::string& part) {
    ExpectRefusal(with(at, value), StatusCode::kInvalidArgument, part);
  };
  ASSERT_TRUE(with(24, 5).ok());  // another fingerprint is no damage
  ExpectRefusal(with(8, 2), StatusCode::kUnsupported, "version 2");
  refused(12, 4, "flags");
  refused(44, 0x80000000u, "counts");
  refused(52, 9, "counts");
  refused(60, 5000, "5000 layers");
  refused(60, 3, "ends before layer 3 of 3");
  refused(60, 1, "follow the last layer");
  refused(64, 5000, "description of 5000 bytes");
  const size_t layer = 68 + Example().description.size();
  refused(layer, 5, "does not rise");
  refused(layer + 4, 0, "0 heads");
  refused(layer + 4, 1000, "inside layer 1 of 2");
  refused(layer + 8, 0x40000000u, "of width 1073741824");
  refused(layer + 12 + 4, 0x7ff80000u, "no moments");                      // a weight that is NaN
  refused(layer + 12 + 32, 0x7f800000u, "no moments");                     // a mean that is infinite
  refused(layer + 12 + 32 + 4 * 16, 0xbf800000u, "layer 1 of 2, head 0");  // a negative variance
}

TEST(CalibrationFile, NamesThePathInErrors) {
  const TemporaryFolder folder;
  ExpectRefusal(ReadCalibration(folder.File("none")), StatusCode::kNotFound, "none: cannot be read");
  ExpectRefusal(ReadCalibration(folder.File("")), StatusCode::kInvalidArgument, "not a regular file");
  std::ofstream(folder.File("text")) << "Once upon a time";
  ExpectRefusal(ReadCalibration(folder.File("text")), StatusCode::kInvalidArgument, "text: is not a calibration file");
  const Status status = WriteCalibration(folder.File("no/folder"), Example());
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("no/folder: cannot be written"), std::string::npos) << status.message();
  EXPECT_TRUE(CheckModel(Example(), "m.swivel", Example().fingerprint).ok());
  const Status other = CheckModel(Example(), "m.swivel", 1);
  EXPECT_EQ(other.message().find("m.swivel: was made for another model (fingerprint 0123456789abcdef, not 0000000000000001"), 0u);
}

TEST(CalibrationFile, HasADefaultPlace) {
  setenv("HOME", "/somewhere", 1);
  setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(DefaultCalibrationPath(255), "/caches/swivel/calibration/00000000000000ff.swivel");
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(DefaultCalibrationPath(255), "/somewhere/.cache/swivel/calibration/00000000000000ff.swivel");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  EXPECT_EQ(DefaultCalibrationPath(255), "");
}

TEST(CalibrationFile, KeepsWhatACacheFoundOut) {
  Calibration own = Example();
  own.self = true;
  StatusOr<Calibration> back = ParseCalibration(CalibrationBytes(own));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_TRUE(back->self);
  EXPECT_FALSE(ParseCalibration(CalibrationBytes(Example()))->self);
  // Rounding beforehand is what reading does.
  const HeadMoments rounded = AsInFile(own.layers[1].heads[0]);
  EXPECT_EQ(rounded.key_covariance, back->layers[1].heads[0].key_covariance);
  EXPECT_EQ(rounded.query_moment, back->layers[1].heads[0].query_moment);
  EXPECT_EQ(rounded.mean, back->layers[1].heads[0].mean);
  EXPECT_NE(rounded.mean, own.layers[1].heads[0].mean);
}

TEST(CalibrationFile, MayBeToldToReplaceNothing) {
  const std::string path = (fs::temp_directory_path() / ("swivel-keep-" + std::to_string(getpid()))).string();
  ASSERT_TRUE(WriteCalibration(path, Example(), FileThere::kKeepFile).ok());
  Calibration other = Example();
  other.num_tokens = 1;
  const Status status = WriteCalibration(path, other, FileThere::kKeepFile);
  EXPECT_NE(status.message().find("exists already"), std::string::npos) << status.message();
  EXPECT_EQ(ReadCalibration(path)->num_tokens, 3 * 2048);
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path())) {
    EXPECT_EQ(entry.path().string().find(path + ".tmp"), std::string::npos) << entry.path();
  }
  fs::remove(path);
}

}  // namespace
}  // namespace swivel
