#include "eval/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "eval/output_file.h"
#include "eval/vector_set.h"

namespace swivel {
namespace {

class Npy : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("swivel-npy-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string File(const std::string& bytes) {
    const std::string path = folder_ / "x.npy";
    EXPECT_TRUE(WriteFile(path, bytes).ok());
    return path;
  }

  std::filesystem::path folder_;
};

// A file of version 1 made by hand, not by the writer under test.
std::string FileOf(const std::string& dictionary, const std::string& values, char version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += {version, '\0', static_cast<char>(dictionary.size() & 0xff), static_cast<char>(dictionary.size() >> 8)};
  if (version > 1) bytes += {'\0', '\0'};
  return bytes + dictionary + values;
}

template <class T>
std::string Bytes(std::initializer_list<T> values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), std::data(values), bytes.size());
  return bytes;
}

TEST_F(Npy, ReadsWhatNumpyWrites) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }                     \n";
  StatusOr<NpyMatrix> matrix = ReadNpy(File(FileOf(header, Bytes<float>({1, 2, 3, -4, 5e-20f, 6}))), 100);
  ASSERT_TRUE(matrix.ok()) << matrix.status().message();
  EXPECT_EQ(matrix->rows, 2u);
  EXPECT_EQ(matrix->columns, 3u);
  EXPECT_EQ(matrix->values, (std::vector<float>{1, 2, 3, -4, 5e-20f, 6}));
}

TEST_F(Npy, ReadsOtherWaysToWriteTheSame) {
  const std::string values = Bytes<float>({1, 2});
  for (const std::string& header : {std::string("{\"shape\":(1,2),\"descr\":\"<f4\",\"fortran_order\":False}"),
                                    std::string("{'fortran_order': False,'descr': '<f4','shape': (1, 2,)}"),
                                    std::string("  { 'descr' : '<f4' , 'shape' : ( 1 , 2 ) , 'fortran_order' : False , } ")}) {
    for (const char version : {1, 2, 3}) {
      StatusOr<NpyMatrix> matrix = ReadNpy(File(FileOf(header, values, version)), 100);
      ASSERT_TRUE(matrix.ok()) << matrix.status().message() << header;
      EXPECT_EQ(matrix->values, (std::vector<float>{1, 2}));
    }
  }
}

TEST_F(Npy, ConvertsHalvesAndDoubles) {
  StatusOr<NpyMatrix> halves =
      ReadNpy(File(FileOf("{'descr': '<f2', 'fortran_order': False, 'shape': (1, 3)}", Bytes<uint16_t>({0x3c00, 0xc000, 0x0001}))), 100);
  ASSERT_TRUE(halves.ok());
  EXPECT_EQ(halves->values, (std::vector<float>{1, -2, 0x1p-24f}));
  StatusOr<NpyMatrix> doubles =
      ReadNpy(File(FileOf("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 1)}", Bytes<double>({0.1, -1e300, 3}))), 100);
  ASSERT_TRUE(doubles.ok());
  EXPECT_EQ(doubles->values, (std::vector<float>{0.1f, -std::numeric_limits<float>::infinity(), 3}));
}

TEST_F(Npy, TakesTheFirstRows) {
  StatusOr<NpyMatrix> matrix =
      ReadNpy(File(FileOf("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)}", Bytes<float>({1, 2, 3, 4, 5, 6}))), 2);
  ASSERT_TRUE(matrix.ok());
  EXPECT_EQ(matrix->file_rows, 3u);
  EXPECT_EQ(matrix->values, (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(Npy, WritesWhatItReads) {
  std::vector<float> values;
  for (int i = 0; i < 7 * 33; ++i) values.push_back(std::sin(static_cast<float>(i)));
  const std::string bytes = NpyBytes(values, 7, 33);
  EXPECT_EQ((bytes.size() - values.size() * 4) % 64, 0u);  // as numpy aligns its files
  StatusOr<NpyMatrix> matrix = ReadNpy(File(bytes), 100);
  ASSERT_TRUE(matrix.ok()) << matrix.status().message();
  EXPECT_EQ(matrix->rows, 7u);
  EXPECT_EQ(matrix->values, values);
}

TEST_F(Npy, RefusesHostileFiles) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }";
  const std::string values = Bytes<float>({1, 2});
  const auto shaped = [](const std::string& shape) { return "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + "}"; };
  const auto typed = [](const std::string& type) { return "{'descr': " + type + ", 'fortran_order': False, 'shape': (1, 2)}"; };
  const std::pair<std::string, const char*> files[] = {
      {"", "not a .npy file"},
      {"PK\3\4 an archive", "not a .npy file"},
      {FileOf(good, values).substr(0, 8), "not a .npy file"},
      {FileOf(good, values).substr(0, 40), "ends in its header"},
      {FileOf(good, values, 2).substr(0, 11), "ends in its header"},
      {FileOf(good, values, 4), "version 4"},
      {FileOf(good, values, 0), "version 0"},
      {std::string("\x93NUMPY\x02\x00\xff\xff\xff\x7f", 12), "at most"},
      {FileOf("", values), "damaged header"},
      {FileOf("{", values), "damaged header"},
      {FileOf("{'descr': '<f4'}", values), "damaged header"},
      {FileOf("{'descr': '<f4", values), "damaged header"},
      {FileOf("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1, 2)}", values), "damaged header"},
      {FileOf("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)}", values), "damaged header"},
      {FileOf("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), 'more': 1}", values), "damaged header"},
      {FileOf(shaped("(1, -2)"), values), "damaged header"},
      {FileOf(shaped("(1 2)"), values), "damaged header"},
      {FileOf(shaped("(99999999999999999999, 2)"), values), "damaged header"},
      {FileOf(shaped("(999999999999999999, 999999999999999999)"), values), "8 bytes follow"},
      {FileOf(shaped("(4611686018427387904, 4)"), values), "damaged header"},
      // The number of values, or that of bytes, wraps around to what is there.
      {FileOf(shaped("(19, 970881267037344822)"), values), "8 bytes follow"},
      {FileOf(shaped("(6, 768614336404564651)"), values), "8 bytes follow"},
      {FileOf(shaped("(1000000000, 1000)"), values), "8 bytes follow"},
      {FileOf(shaped("(1, 1)"), values), "8 bytes follow"},
      {FileOf(shaped("(0, 2)"), ""), "no values"},
      {FileOf(shaped("(1, 2)"), values + "x"), "9 bytes follow"},
      {FileOf(shaped("(1, 2)"), values.substr(1)), "7 bytes follow"},
      {FileOf(shaped("()"), values), "shape ()"},
      {FileOf(shaped("(2,)"), values), "shape (2,)"},
      {FileOf(shaped("(1, 2, 1)"), values), "shape (1, 2, 1)"},
      {FileOf(typed("'<i4'"), values), "'<i4'"},
      {FileOf(typed("'>f4'"), values), "'>f4'"},
      {FileOf(typed("'<c8'"), values), "'<c8'"},
      {FileOf(typed("'|O'"), values), "'|O'"},
      {FileOf(typed("[('a', '<f4'), ('b', '<f4')]"), values), "a record"},
      {FileOf(typed("[('a', '<f4'"), values), "damaged header"},
      {FileOf("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2)}", values), "Fortran"},
  };
  for (const auto& [bytes, reason] : files) {
    StatusOr<NpyMatrix> matrix = ReadNpy(File(bytes), 100);
    ASSERT_FALSE(matrix.ok()) << reason;
    EXPECT_NE(matrix.status().message().find(reason), std::string::npos) << matrix.status().message() << " without " << reason;
    EXPECT_NE(matrix.status().message().find("x.npy"), std::string::npos) << matrix.status().message();
  }
  EXPECT_EQ(ReadNpy(folder_ / "absent.npy", 1).status().code(), StatusCode::kNotFound);
  EXPECT_NE(ReadNpy(folder_, 1).status().message().find("not a regular file"), std::string::npos);
}

// A header cut or damaged at any byte is an error or a file that says the same; never a crash.
TEST_F(Npy, SurvivesDamageAnywhere) {
  const std::string whole = NpyBytes(std::vector<float>{1, 2, 3, 4}, 2, 2);
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_FALSE(ReadNpy(File(whole.substr(0, i)), 100).ok()) << i;
    for (const char damage : {'\0', '\xff', '(', '9', '\''}) {
      std::string bytes = whole;
      bytes[i] = damage;
      StatusOr<NpyMatrix> matrix = ReadNpy(File(bytes), 100);
      if (matrix.ok()) {
        EXPECT_EQ(matrix->rows * matrix->columns, 4u) << i;
      }
    }
  }
}

TEST_F(Npy, VectorSetsNameBadRows) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, inf, -inf}) {
    std::vector<float> values(3 * 32, 1.0f);
    values[32 + 5] = bad;
    StatusOr<VectorSet> set = LoadVectors(File(NpyBytes(values, 3, 32)), 100);
    ASSERT_FALSE(set.ok());
    EXPECT_NE(set.status().message().find("row 1, column 5"), std::string::npos) << set.status().message();
    EXPECT_TRUE(LoadVectors(File(NpyBytes(values, 3, 32)), 1).ok());  // a row that is not taken does not matter
  }
}

TEST_F(Npy, VectorSetsLeaveZerosOut) {
  std::vector<float> values(4 * 32, 0.0f);
  values[40] = 2;
  values[3 * 32] = -3;
  values[2 * 32] = -0.0f;
  StatusOr<VectorSet> set = LoadVectors(File(NpyBytes(values, 4, 32)), 100);
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(set->rows(), 2u);
  EXPECT_EQ(set->zero_rows, 2u);
  EXPECT_EQ(set->row(0)[8], 2);
  EXPECT_EQ(set->row(1)[0], -3);
  EXPECT_NE(LoadVectors(File(NpyBytes(std::vector<float>(64), 2, 32)), 100).status().message().find("zeros only"), std::string::npos);
  EXPECT_FALSE(LoadVectors(File(NpyBytes(std::vector<float>(65537, 1.0f), 1, 65537)), 100).ok());
}

TEST(Sources, AreWhatTheyAreCalled) {
  constexpr int kWidth = 128;
  constexpr size_t kRows = 4000;
  const auto mean_square = [](const VectorSet& set) {
    double sum = 0;
    for (const float value : set.values) sum += static_cast<double>(value) * value;
    return sum / static_cast<double>(set.values.size());
  };
  const VectorSet gaussian = MakeVectors(SourceKind::kGaussian, kWidth, kRows, 1);
  EXPECT_NEAR(mean_square(gaussian), 1, 0.01);
  EXPECT_EQ(gaussian.values, MakeVectors(SourceKind::kGaussian, kWidth, kRows, 1).values);
  EXPECT_NE(gaussian.values, MakeVectors(SourceKind::kGaussian, kWidth, kRows, 2).values);

  const VectorSet sparse = MakeVectors(SourceKind::kSparse, kWidth, kRows, 1);
  for (size_t i = 0; i < kRows; ++i) {
    int spikes = 0;
    for (const float value : sparse.row(i)) spikes += value != 0;
    ASSERT_GE(spikes, 1);
    ASSERT_LE(spikes, kWidth / 32);
  }
  // Student t with 3 degrees of freedom: P(|x| > 5.841) = 0.01, P(|x| > 3.182) = 0.05.
  const VectorSet heavy = MakeVectors(SourceKind::kHeavy, kWidth, kRows, 1);
  double beyond_5 = 0, beyond_1 = 0;
  for (const float value : heavy.values) {
    beyond_5 += std::fabs(value) > 3.182446f;
    beyond_1 += std::fabs(value) > 5.840909f;
  }
  EXPECT_NEAR(beyond_5 / static_cast<double>(heavy.values.size()), 0.05, 0.002);
  EXPECT_NEAR(beyond_1 / static_cast<double>(heavy.values.size()), 0.01, 0.001);

  const VectorSet biased = MakeVectors(SourceKind::kBiased, kWidth, kRows, 1);
  std::vector<double> mean(kWidth);
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < kWidth; ++j) mean[j] += biased.row(i)[j] / kRows;
  }
  double square = 0;
  int channels = 0;
  for (const double value : mean) {
    square += value * value;
    channels += std::fabs(value) > 100;
  }
  EXPECT_NEAR(std::sqrt(square), kBiasNorm, 1);
  EXPECT_EQ(channels, kBiasChannels);
}

}  // namespace
}  // namespace swivel
