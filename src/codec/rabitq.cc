// rabitq1..4: RaBitQ (arXiv 2405.12497) and extended RaBitQ (arXiv 2409.09913), with the rotation of turbo and no centre.
//
//   y = R x;   code u_i in 0 … 2^b - 1 for the level (2 u_i - (2^b - 1)) / 2^(b-1);   x^ = s R^T level(u)
// u is the point of that grid with the largest cosine to y (BestRabitqSteps). Scales: `unbiased` (RaBitQ's estimator
// <o_bar, q> / <o_bar, o>, the default here), `ls` (the library's reconstruction mode), `matched` (its plain mode). One bit with
// `unbiased` is the same code as DRIVE.
//
// 2 to 4 bits: Layout::kPlanes, whose integer kernels need no rounding of levels here. One bit, a row: | s, e8m8 | w signs |.
#include "codec/rabitq.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "codec/codec.h"
#include "codec/plane_rows.h"
#include "codec/rows.h"
#include "codec/turbo.h"
#include "math/lane_sum.h"

namespace swivel {
namespace {

// Odd integers over 2^(b-1): the power of two is exact and keeps scales of tiny rows as large as turbo's.
constexpr float kGrid1[] = {-1, 1};
constexpr float kGrid2[] = {-1.5f, -.5f, .5f, 1.5f};
constexpr float kGrid3[] = {-1.75f, -1.25f, -.75f, -.25f, .25f, .75f, 1.25f, 1.75f};
constexpr float kGrid4[] = {-1.875f, -1.625f, -1.375f, -1.125f, -.875f, -.625f, -.375f, -.125f,
                            .125f,   .375f,   .625f,   .875f,   1.125f, 1.375f, 1.625f, 1.875f};
constexpr ByteLevels kGrid2Bytes = {{-3, -1, 1, 3}, .5f};
constexpr ByteLevels kGrid3Bytes = {{-7, -5, -3, -1, 1, 3, 5, 7}, .25f};
constexpr ByteLevels kGrid4Bytes = {{-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15}, .125f};
constexpr IntegerBooks kGrid2Books = {kGrid2Bytes, kGrid2Bytes};
constexpr IntegerBooks kGrid3Books = {kGrid3Bytes, kGrid3Bytes};
constexpr IntegerBooks kGrid4Books = {kGrid4Bytes, kGrid4Bytes};

template <int kBits>
constexpr const float* Grid() {
  if constexpr (kBits == 1) return kGrid1;
  if constexpr (kBits == 2) return kGrid2;
  if constexpr (kBits == 3) return kGrid3;
  return kGrid4;
}

template <int kBits>
constexpr const IntegerBooks* GridBooks() {
  if constexpr (kBits == 2) return &kGrid2Books;
  if constexpr (kBits == 3) return &kGrid3Books;
  return &kGrid4Books;
}

// The codes of y, and the scale that goes with them.
template <int kBits>
uint16_t Search(const float* y, int width, ScaleMode mode, int exponent, uint8_t* codes) {
  constexpr int kHalf = 1 << (kBits - 1);
  BestRabitqSteps(y, width, kHalf - 1, codes);
  for (int i = 0; i < width; ++i) codes[i] = static_cast<uint8_t>(y[i] >= 0.0f ? kHalf + codes[i] : kHalf - 1 - codes[i]);
  float c[kMaxHeadWidth];
  for (int i = 0; i < width; ++i) c[i] = Grid<kBits>()[codes[i]];
  return RowScale(mode, {Dot16(y, y, width), Dot16(c, c, width), Dot16(c, y, width)}, exponent);
}

template <int kBits>
void Encode(const float* row, int width, Side side, ScaleMode mode, uint8_t* group, int token) {
  float y[kMaxHeadWidth];
  const LoadedRow loaded = LoadRow(Frame::kSignedHadamard, row, width, y);
  if (loaded.is_flat) return SetFlatRow<kBits>(group, width, side, token, loaded.flat_scale);
  uint8_t codes[kMaxHeadWidth];
  SetPlaneScale(group, kBits, width, token, Search<kBits>(y, width, mode, loaded.exponent, codes));
  for (int i = 0; i < width; ++i) SetCode<kBits>(group, width, side, token, i, codes[i]);
}

template <int kBits>
void DecodeInFrame(const uint8_t* group, int width, Side side, int token, float* row) {
  DecodePlaneRow<kBits>(Grid<kBits>(), group, width, side, token, row);
}

constexpr size_t RowBytes1(int width) { return 2 + static_cast<size_t>(width) / 8; }

void Encode1(const float* row, int width, Side, ScaleMode mode, uint8_t* group, int token) {
  uint8_t* at = group + token * RowBytes1(width);
  float y[kMaxHeadWidth];
  const LoadedRow loaded = LoadRow(Frame::kSignedHadamard, row, width, y);
  uint8_t codes[kMaxHeadWidth];
  std::fill_n(codes, width, uint8_t{1});
  PutScale(at, loaded.is_flat ? loaded.flat_scale : Search<1>(y, width, mode, loaded.exponent, codes));
  for (int i = 0; i < width; ++i) PutBits(at + 2, i, 1, codes[i]);
}

void DecodeInFrame1(const uint8_t* group, int width, Side, int token, float* row) {
  const uint8_t* at = group + token * RowBytes1(width);
  const float scale = GetScale(at);
  for (int i = 0; i < width; ++i) row[i] = kGrid1[GetBits(at + 2, i, 1)] * scale;
}

constexpr Codec MakeRabitq1() {
  Codec codec = MakeRows<RowBytes1>(CodecId::kRabitq1, "rabitq1", "RaBitQ: signs of the rotated row, one scale a row", Frame::kSignedHadamard, 1,
                                    16, /*has_scale_mode=*/true, &Encode1, &DecodeInFrame1);
  codec.nearest_levels = false;
  codec.default_scale = ScaleMode::kUnbiased;
  return codec;
}

template <int kBits>
constexpr Codec MakeRabitq(CodecId id, const char* name, const char* summary) {
  return {id,
          name,
          summary,
          Frame::kSignedHadamard,
          Frame::kSignedHadamard,
          Layout::kPlanes,
          kBits,
          16,
          true,
          Grid<kBits>(),
          GridBooks<kBits>(),
          &PlaneGroupBytes<kBits>,
          &Encode<kBits>,
          &DecodeInFrame<kBits>,
          &CopyPlaneRow<kBits>,
          /*nearest_levels=*/false,
          ScaleMode::kUnbiased};
}

}  // namespace

void BestRabitqSteps(const float* row, int width, int max_step, uint8_t* steps) {
  std::fill_n(steps, width, uint8_t{0});
  if (max_step == 0) return;
  const auto magnitude = [&](int i) { return std::fabs(row[i]); };
  // Magnitudes in descending order, ties by index; the bits of positive floats sort like the floats. Zeros never leave step 0.
  uint64_t sorted[kMaxHeadWidth];
  int count = 0;
  double product = 0.0, energy = 0.0;  // <levels, magnitudes>, ||magnitudes||^2
  for (int i = 0; i < width; ++i) {
    if (magnitude(i) > 0.0f)
      sorted[count++] = static_cast<uint64_t>(~std::bit_cast<uint32_t>(magnitude(i))) << 16 | static_cast<uint64_t>(i);
    product += magnitude(i);
    energy += static_cast<double>(magnitude(i)) * magnitude(i);
  }
  std::sort(sorted, sorted + count);
  const auto index = [&](int place) { return static_cast<int>(sorted[place] & 0xffff); };
  double inverse[kMaxHeadWidth];
  for (int place = 0; place < count; ++place) inverse[place] = 1.0 / magnitude(index(place));

  // List k holds the events t = k / magnitude, ascending; next[k] is the place of the first that has not happened. A key is t with k in
  // its last bits: the least of eight is found without branches.
  const auto key = [&](int k, int place) {
    const double t = place < count ? k * inverse[place] : HUGE_VAL;
    return (std::bit_cast<uint64_t>(t) & ~uint64_t{7}) | static_cast<uint64_t>(k);
  };
  int next[8] = {};
  uint64_t at[8];
  for (int k = 0; k < 8; ++k) at[k] = key(k, k >= 1 && k <= max_step ? 0 : count);

  uint16_t events[7 * kMaxHeadWidth];
  double norm2 = width;  // of the levels 2 m + 1
  double best_product = product, best_norm2 = norm2;
  double top_sum = 0.0, top_energy = 0.0;  // of the coordinates that have reached max_step
  const int num_events = max_step * count;
  int best_event = 0;
  for (int event = 0; event < num_events; ++event) {
    const uint64_t least =
        std::min(std::min(std::min(at[0], at[1]), std::min(at[2], at[3])), std::min(std::min(at[4], at[5]), std::min(at[6], at[7])));
    const int k = static_cast<int>(least & 7);
    const int i = index(next[k]++);
    at[k] = key(k, next[k]);
    events[event] = static_cast<uint16_t>(i);
    product += 2.0 * magnitude(i);
    norm2 += 8.0 * k;  // (2 k + 1)^2 - (2 k - 1)^2
    if (product * product * best_norm2 > best_product * best_product * norm2) {
      best_product = product;
      best_norm2 = norm2;
      best_event = event + 1;
    }
    if (k < max_step) continue;
    // From now on these coordinates share one level, whatever the others do: no later code has a cosine^2 above
    // (energy - spread of these) / energy, the others being matched exactly.
    top_sum += magnitude(i);
    top_energy += static_cast<double>(magnitude(i)) * magnitude(i);
    const double spread = top_energy - top_sum * top_sum / next[k];
    if ((energy - spread) * best_norm2 < best_product * best_product) break;
  }
  for (int event = 0; event < best_event; ++event) ++steps[events[event]];
}

double RabitqErrorBound(const float* row, const float* decoded, int width, double query_norm, double epsilon) {
  double norm2 = 0.0, decoded2 = 0.0, product = 0.0;
  for (int i = 0; i < width; ++i) {
    norm2 += static_cast<double>(row[i]) * row[i];
    decoded2 += static_cast<double>(decoded[i]) * decoded[i];
    product += static_cast<double>(row[i]) * decoded[i];
  }
  if (norm2 == 0.0) return query_norm * std::sqrt(decoded2);
  const double p = product / norm2;
  const double across = std::sqrt(std::max(0.0, decoded2 - p * product));
  return query_norm * (std::fabs(p - 1.0) * std::sqrt(norm2) + epsilon * across / std::sqrt(width - 1.0));
}

double RabitqFailureProbability(double epsilon) { return 2.0 * std::exp(-0.5 * epsilon * epsilon); }

extern const Codec kRabitq1Codec = MakeRabitq1();
extern const Codec kRabitq2Codec = MakeRabitq<2>(CodecId::kRabitq2, "rabitq2", "extended RaBitQ: best point of a uniform grid of 4 levels");
extern const Codec kRabitq3Codec = MakeRabitq<3>(CodecId::kRabitq3, "rabitq3", "extended RaBitQ: best point of a uniform grid of 8 levels");
extern const Codec kRabitq4Codec =
    MakeRabitq<4>(CodecId::kRabitq4, "rabitq4", "extended RaBitQ: best point of a uniform grid of 16 levels");

}  // namespace swivel
