// Second moments of the keys and queries of one KV head: all that the transform of a calibrated cache is made from.
//
// Goals: exact weights (an attention softmax over the window), windows that add up, cheap enough to run inside a decode call. Non-goals:
// capturing rows (llama/capture.h, the plugin), the transform (transform.h).
//
// Why weights: an error e_j of the logit of key j changes the softmax p of a query by a KL divergence of (1/2) Var_p(e). With errors that
// are independent between keys its mean is (1/2) sum_j p_j (1 - p_j) E e_j^2, over the keys j that are not stored exactly. So
//   weight of a key   = .75 n a_j / sum a + .25,  a_j = sum over queries p_j (1 - p_j),  n keys that are not excluded
//   weight of a query = 1 - sum p_j^2 over the keys that are not excluded; 0 when it sees none of them
// The uniform quarter keeps keys in the sum that nobody has looked at yet. For the same reason a query that looks at excluded keys only
// counts as one that spreads its attention, not as none: sum p (1 - p) would be no better from 2048 tokens and 6 % worse from 128 (KL of
// the softmax, 24 heads of S). Excluded keys (attention sinks, stored exactly) take part in the softmax and in nothing else.
#ifndef SWIVEL_CALIBRATE_MOMENTS_H_
#define SWIVEL_CALIBRATE_MOMENTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"

namespace swivel {

// Attention sinks at the beginning of a text that calibration leaves out.
inline constexpr int kCalibrationSinks = 4;

// Plain data of one KV head. Matrices are symmetric, whole, [width * width].
struct HeadMoments {
  int width = 0;
  bool group_means = false;       // the covariance is that of keys minus the mean of their group of 128
  int64_t num_keys = 0;           // not excluded
  double key_weight = 0;          // sum of the weights
  double key_weight_squares = 0;  // sum of their squares
  double query_weight = 0;
  std::vector<double> mean;            // [width] weighted mean of the keys
  std::vector<double> key_covariance;  // weighted, around the mean; with group_means the second moment of what the group means leave
  std::vector<double> query_moment;    // weighted, around zero

  // How many equally weighted keys would carry as much information.
  double effective_keys() const { return key_weight_squares > 0 ? key_weight * key_weight / key_weight_squares : 0; }
};

HeadMoments EmptyMoments(int width, bool group_means);

// `into` becomes the moments of both texts together. Both must have one width and one kind of centring: else kInvalidArgument.
Status MergeMoments(const HeadMoments& from, HeadMoments* into);

// Consecutive tokens of one KV head with the queries of the query heads that read it. Owns nothing. Rows are `width` floats.
struct AttentionWindow {
  int width = 0;
  int num_keys = 0;
  const float* keys = nullptr;  // key j at keys + j * key_stride
  ptrdiff_t key_stride = 0;     // in floats; 0: width

  int group = 1;                    // query heads
  int num_queries = 0;              // of each
  const float* queries = nullptr;   // query i of head h at queries + h * query_head_stride + i * query_stride
  ptrdiff_t query_stride = 0;       // in floats; 0: width
  ptrdiff_t query_head_stride = 0;  // in floats; 0: num_queries * query_stride
  float logit_scale = 1;            // logits are logit_scale * <q, k>

  // Which keys a query sees. Without `visible`: causal, the queries being those of the last num_queries keys, and with a sliding window
  // only the `sliding_window` newest keys, its own included (0: all). With it: key j where visible[i * num_keys + j] is not zero, the same
  // for all heads; then nothing is assumed about order, and sliding_window is not used.
  const uint8_t* visible = nullptr;
  int sliding_window = 0;

  int num_sinks = 0;                  // the first keys are excluded
  const uint8_t* excluded = nullptr;  // [num_keys] and those where this is not zero; null: no others
};

// Adds a window to `moments`, which EmptyMoments made with the window's width. Soft caps, learned sinks and position biases of logits are
// not modelled: they would change weights only.
//
// With group means, tokens are centred by groups of 128 counted from the first key of the window, each by the plain mean of its keys that
// are not excluded: what the cache subtracts. A last group of fewer than 64 tokens counts as a part of the one before.
//
// Cost: 2 group num_queries num_keys width float operations (half of them where causal) and 2 (group num_queries + num_keys) width^2; some
// temporary rows and matrices are allocated. Thread-safe for different moments. Errors: kInvalidArgument for sizes that make no sense and
// for values that are not finite (moments are then unchanged), kOutOfMemory.
Status AddWindow(const AttentionWindow& window, HeadMoments* moments);

}  // namespace swivel

#endif  // SWIVEL_CALIBRATE_MOMENTS_H_
