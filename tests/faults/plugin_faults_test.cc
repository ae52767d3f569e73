// Memory that cannot be had and files that are damaged are refused when a cache is created, with the reason, and the process goes on.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "calibrate/calibration_file.h"
#include "harness.h"

namespace swivel::plugin_test {
namespace {

rlim_t AddressSpace() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

// A limit of the address space above what is in use now, while it lives.
class Limit {
 public:
  explicit Limit(rlim_t more) {
    getrlimit(RLIMIT_AS, &before_);
    const rlimit limit = {AddressSpace() + more, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  }
  ~Limit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_;
};

Shape LargeShape() {
  Shape shape;
  shape.num_cells = 1 << 18;  // 96 MiB a tensor as f16
  return shape;
}

TEST(MemoryLimit, ACacheThatCannotBeHadIsRefusedWhenItIsAllocated) {
  SetKv("balanced,calibration=self:128");
  const std::string said = CaptureStderr([] {
    // Room for the buffer (about 76 MiB), not for the rows.
    const Limit limit(200 << 20);
    EXPECT_EQ(Cache(PluginBufferType(), LargeShape()).buffer, nullptr);
  });
  EXPECT_NE(said.find("_l0: cannot reserve "), std::string::npos) << said;
  EXPECT_NE(said.find(" bytes of address space (the process is limited to "), std::string::npos) << said;
  EXPECT_NE(said.find("; the cache is not created\n"), std::string::npos) << said;

  Cache cache(PluginBufferType(), LargeShape());
  ASSERT_NE(cache.buffer, nullptr) << "without the limit it can";
  EXPECT_FALSE(Runner(PluginDevice()).Attend(cache, MakeBatch(cache.shape, 4, 0, 0, 1, 1)).empty());
}

// What was held back when the cache was allocated is there when the first graph needs it, whatever was allocated in between.
TEST(MemoryLimit, ACacheThatWasAllocatedRuns) {
  SetKv("balanced,calibration=self:128");
  Cache cache(PluginBufferType(), LargeShape());
  ASSERT_NE(cache.buffer, nullptr);
  Runner runner(PluginDevice());
  // A graph and its threads need some room; the stores (460 MiB) must come from what is held.
  const Limit limit(100 << 20);
  std::vector<float> out;
  const std::string said = CaptureStderr([&] { out = runner.Attend(cache, MakeBatch(cache.shape, 4, 0, 0, 1, 1)); });
  EXPECT_FALSE(out.empty());
  EXPECT_EQ(said.find("stays uncompressed"), std::string::npos) << said;
  EXPECT_NE(said.find("swivel: KV cache 4 tensors"), std::string::npos) << said;
}

// A calibration for the shape of the harness.
Calibration SmallCalibration() {
  Calibration calibration;
  calibration.description = "a test";
  calibration.chunk_tokens = 128;
  calibration.num_chunks = calibration.planned_chunks = 1;
  calibration.num_tokens = 128;
  for (int layer = 0; layer < 2; ++layer) {
    LayerMoments moments;
    moments.layer = layer;
    moments.width = 64;
    for (int head = 0; head < 3; ++head) {
      HeadMoments own = EmptyMoments(64, true);
      own.key_weight = own.query_weight = own.key_weight_squares = 128;
      own.num_keys = 128;
      for (size_t i = 0; i < 64; ++i) own.key_covariance[i * 65] = own.query_moment[i * 65] = 1.0 + static_cast<double>(i) / 64;
      moments.heads.push_back(own);
    }
    calibration.layers.push_back(moments);
  }
  return calibration;
}

TEST(DamagedFile, ACalibrationIsRefusedWhenTheGraphIsPlanned) {
  const auto path = std::filesystem::temp_directory_path() / ("swivel-damaged-" + std::to_string(getpid()) + ".swivel");
  std::string bytes = CalibrationBytes(SmallCalibration());
  const auto attend = [&](const std::string& content, std::string* said) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    SetKv("balanced,calibration=" + path.string());
    std::vector<float> out;
    *said = CaptureStderr([&] {
      Cache cache(PluginBufferType(), {});
      out = Runner(PluginDevice()).Attend(cache, MakeBatch({}, 4, 0, 0, 1, 1));
    });
    return !out.empty();
  };
  std::string said;
  std::string flipped = bytes;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 4);
  EXPECT_FALSE(attend(flipped, &said));
  EXPECT_NE(said.find("swivel: " + path.string() + ": "), std::string::npos) << said;
  EXPECT_FALSE(attend(bytes.substr(0, bytes.size() - 100), &said)) << said;
  EXPECT_FALSE(attend("", &said)) << said;
  EXPECT_TRUE(attend(bytes, &said)) << "the whole file is taken: " << said;
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace swivel::plugin_test
