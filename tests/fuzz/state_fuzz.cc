// A staged layer cache under any sequence of writes, packing, copies and clears, against a model of what each cell must hold: nothing, the
// row that was last written, or what a lossy code may make of it. Rows that must stay exact are compared bit by bit.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "cache/make_layer.h"
#include "cache/spec.h"
#include "fuzz.h"

namespace {

using namespace swivel;

constexpr int kWidth = 32;
constexpr const char* kSpecs[] = {"tcq3,transform=wht,window=0,sinks=2",
                                  "balanced,window=64",
                                  "tiny,sinks=0,window=16",
                                  "turbo4,window=100,sinks=4",
                                  "kivi4,window=1",
                                  "tcq4,transform=wht,window=8,decay=200:3+300:2",
                                  "balanced,window=0,halves=off,budget=32K",
                                  "q8_0,sinks=1",
                                  "balanced,window=0,layer=0/0:tcq4"};

// Bytes of the input, zeros behind its end.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  int Byte() { return empty() ? 0 : data_[at_++]; }
  int Word() {
    const int low = Byte();
    return low | Byte() << 8;
  }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

struct Cell {
  bool written = false, pinned = false;
  std::vector<uint16_t> row;
};

class Machine {
 public:
  explicit Machine(Input* input) {
    const CacheSpec spec = ParseSpec(kSpecs[input->Byte() % std::size(kSpecs)]).value();
    sinks_ = spec.sinks;
    const int shape_bits = input->Byte();
    shape_ = {kWidth, 1 + (shape_bits & 1), 1 + input->Word() % 400, 1 + (shape_bits >> 1 & 1)};
    auto made = MakeLayer(spec, {}, shape_, shape_, spec.budget_bytes);
    FUZZ_CHECK(made.ok());
    cache_ = std::move(*made);
    packs_rows_ = !TakesBasis(*cache_) && !GetCodec(spec.k).encodes_groups();
    const std::vector<KeyTransform> basis(static_cast<size_t>(shape_.num_heads), HadamardTransform(kWidth));
    if (TakesBasis(*cache_)) SetBasis(cache_.get(), basis);
    for (int side = 0; side < 2; ++side) {
      cells_[side].resize(static_cast<size_t>(total()));
      largest_[side].resize(static_cast<size_t>(shape_.groups_per_stream() * shape_.num_streams));
    }
  }

  void Step(Input* input) {
    switch (input->Byte() % 8) {
      case 0:
      case 1:
      case 2:
        return Write(input, /*sides=*/3);
      case 3:
        return Write(input, 1 + input->Byte() % 2);
      case 4:
        return Pack(input->Byte());
      case 5:
        return input->Byte() % 4 == 0 ? Clear(1 + input->Byte() % 3) : CheckAll();
      case 6:
        return Copy(input->Byte());
      default:
        // A self-calibrated basis is forgotten by a clear only.
        return cache_->AllowPacking();
    }
  }

  void CheckAll() const {
    int64_t written = 0;
    for (int64_t cell = 0; cell < total(); ++cell) {
      Check(Side::kKey, cell);
      Check(Side::kValue, cell);
      written += cells_[0][static_cast<size_t>(cell)].written;
    }
    const LayerCache::Counts counts = cache_->Count();
    FUZZ_CHECK(counts.exact + counts.packed == written);
    FUZZ_CHECK(counts.pinned <= total());
  }

 private:
  int64_t total() const { return shape_.num_cells * shape_.num_streams; }
  size_t GroupOf(int64_t cell) const {
    return static_cast<size_t>(cell / shape_.num_cells * shape_.groups_per_stream() + cell % shape_.num_cells / kGroupTokens);
  }

  // What a run of rows looks like; NaN and infinity are rows, too.
  static float Value(Random* random, int kind) {
    const float normal = random->Normal();
    switch (kind) {
      case 0:
        return 0.0f;
      case 1:
        return random->Below(200) == 0 ? NAN : normal;
      case 2:
        return random->Below(200) == 0 ? INFINITY : normal;
      case 3:
        return 1e-7f * normal;
      case 4:
        return 5000.0f * normal;
      case 5:
        return random->Below(8) == 0 ? 40.0f * normal : 0.0f;
      default:
        return normal + (kind == 6 ? 3.0f : 0.0f);
    }
  }

  void Write(Input* input, int sides) {
    const int64_t first = input->Word() % total();
    const int64_t count = std::min<int64_t>(1 + input->Byte(), total() - first);
    const int kind = input->Byte() % 9, position = input->Byte();
    Random random(static_cast<uint64_t>(input->Byte()));
    for (int64_t cell = first; cell < first + count; ++cell) {
      for (int side = 0; side < 2; ++side) {
        if ((sides >> side & 1) == 0) continue;
        WriteRow(side, cell, kind,
                 position == 255   ? LayerCache::kKeepPin
                 : position == 254 ? LayerCache::kNoPosition
                                   : position + cell - first,
                 &random);
      }
    }
  }

  void WriteRow(int side, int64_t cell, int kind, int64_t position, Random* random) {
    Cell& model = cells_[side][static_cast<size_t>(cell)];
    uint16_t* row = cache_->Row(static_cast<Side>(side), cell);
    float norm = 0;
    for (int i = 0; i < kWidth * shape_.num_heads; ++i) {
      row[i] = F16FromF32(Value(random, kind));
      const float value = F32FromF16(row[i]);
      if (std::isfinite(value)) norm += value * value;
    }
    cache_->MarkWritten(static_cast<Side>(side), cell, position);
    model.written = true;
    model.row.assign(row, row + kWidth * shape_.num_heads);
    float& largest = largest_[side][GroupOf(cell)];
    largest = std::max(largest, std::sqrt(norm));
    if (side == 0 && position != LayerCache::kKeepPin) {
      // Values are kept with their keys.
      cells_[0][static_cast<size_t>(cell)].pinned = position >= 0 && position < sinks_;
    }
  }

  void Pack(int incoming) {
    std::vector<PackJob> jobs = cache_->CollectReady(incoming);
    for (PackJob& job : jobs) cache_->RunJob(Kernels(), &job);
    cache_->Commit(jobs);
    for (const PackJob& job : cache_->CollectReady(0)) FUZZ_CHECK(job.tokens.Any());
  }

  void Clear(int sides) {
    for (int side = 0; side < 2; ++side) {
      if ((sides >> side & 1) == 0) continue;
      cache_->Clear(static_cast<Side>(side));
      std::fill(cells_[side].begin(), cells_[side].end(), Cell{});
      std::fill(largest_[side].begin(), largest_[side].end(), 0.0f);
    }
  }

  // Whole streams, keys and values, as the host copies a sequence.
  void Copy(int from) {
    if (shape_.num_streams == 1) return;
    const int64_t source = from % 2 * shape_.num_cells, target = shape_.num_cells - source;
    const auto groups = static_cast<size_t>(shape_.groups_per_stream());
    for (int side = 0; side < 2; ++side) {
      FUZZ_CHECK(cache_->CopyCells(static_cast<Side>(side), source, target, shape_.num_cells));
      std::copy_n(cells_[side].begin() + source, shape_.num_cells, cells_[side].begin() + target);
      for (size_t g = 0; g < groups; ++g) {
        float& largest = largest_[side][GroupOf(target) + g];
        largest = std::max(largest, largest_[side][GroupOf(source) + g]);
      }
    }
  }

  void Check(Side side, int64_t cell) const {
    const Cell& model = cells_[static_cast<int>(side)][static_cast<size_t>(cell)];
    FUZZ_CHECK(cache_->IsWritten(side, cell) == model.written);
    std::vector<uint16_t> row(static_cast<size_t>(kWidth) * shape_.num_heads, 0x1234);
    cache_->ReadRow(side, cell, row.data());
    if (!model.written) {
      for (uint16_t value : row) FUZZ_CHECK(value == 0);
      return;
    }
    if (row == model.row) return;
    FUZZ_CHECK(!(side == Side::kKey && model.pinned));
    double error = 0;
    for (int head = 0; head < shape_.num_heads; ++head) {
      const bool damaged = HasDamage(model.row, head);
      // Codecs of rows store damage as such; where a group is packed as a whole, damaged rows stay exact.
      if (damaged) FUZZ_CHECK(packs_rows_ && HasDamage(row, head));
      for (int i = head * kWidth; i < (head + 1) * kWidth && !damaged; ++i) {
        const float wanted = F32FromF16(model.row[static_cast<size_t>(i)]), found = F32FromF16(row[static_cast<size_t>(i)]);
        FUZZ_CHECK(std::isfinite(found));
        error += (found - wanted) * (found - wanted);
      }
    }
    // Codes are relative to a scale of the whole group. Another row in place of this one would be further away than that (of equal
    // norms: 1.4).
    const double bound = .8 * largest_[static_cast<int>(side)][GroupOf(cell)] + 1e-6;
    FUZZ_CHECK(std::sqrt(error) <= bound);
  }

  static bool HasDamage(const std::vector<uint16_t>& row, int head) {
    const auto begin = row.begin() + head * kWidth;
    return std::any_of(begin, begin + kWidth, [](uint16_t value) { return !std::isfinite(F32FromF16(value)); });
  }

  static const swivel::Kernels& Kernels() {
    static const swivel::Kernels& kernels = KernelsFor(ChooseTarget().value());
    return kernels;
  }

  int sinks_ = 0;
  bool packs_rows_ = false;  // one by one, as they are
  StoreShape shape_;
  std::unique_ptr<LayerCache> cache_;
  std::vector<Cell> cells_[2];
  std::vector<float> largest_[2];  // norm of a row that was ever written to the group
};

// Fill, pack, read; and the same with a copy and a rewrite in between.
constexpr uint8_t kFill[] = {0, 3, 0x90, 1, 7, 0, 0, 0,  200, 8,  0, 1,   0, 200, 0, 200, 8, 0,
                             2, 4, 0,    5, 1, 3, 1, 10, 0,   60, 7, 255, 3, 4,   0, 5,   1};
constexpr uint8_t kCopies[] = {1,   2, 0x00, 1, 7, 0, 0, 0, 255, 6, 0, 9, 4,   0, 6, 0, 0, 20, 0, 90, 5,
                               254, 3, 4,    0, 5, 1, 5, 0, 2,   0, 0, 0, 255, 1, 0, 5, 4, 0,  5, 1};
constexpr uint8_t kDecays[] = {5, 0, 0x90, 1, 7, 0, 0, 0, 255, 8, 0, 1, 4,  0, 0,   0, 1, 144, 7, 0, 2,
                               4, 9, 4,    9, 4, 9, 5, 1, 3,   0, 0, 0, 50, 4, 255, 6, 4, 0,   5, 1};

}  // namespace

const FuzzSeed kFuzzSeeds[] = {{kFill, sizeof(kFill)}, {kCopies, sizeof(kCopies)}, {kDecays, sizeof(kDecays)}, {nullptr, 0}};

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Machine machine(&input);
  for (int step = 0; step < 64 && !input.empty(); ++step) machine.Step(&input);
  machine.CheckAll();
  return 0;
}
