// From the moments of a KV head to the change of basis in which its keys are stored.
//
// With S_k the covariance of the keys and S_q the second moment of the queries, a code that makes the same error in every coordinate of
// y = T (k - mean) and adapts its scale to y disturbs logits in proportion to
//   tr(S_q T^-1 T^-T) tr(T S_k T^T)
// The minimum over all T is (sum_i sqrt(lambda_i))^2, lambda the eigenvalues of S_q S_k; a rotation has tr(S_q) tr(S_k). It is reached by
//   S_q = L L^T (Cholesky),  L^T S_k L = U diag(lambda) U^T,  T = R diag(lambda)^-1/4 U^T L^T,  T^-1 = L^-T U diag(lambda)^1/4 R^T
// for any rotation R: a square root of the geometric mean of S_k^-1 and S_q. Here lambda falls, and R is the signed Hadamard of
// math/rotation.h inside each of two segments, so that all coordinates of a segment have about the same variance and the segments, which
// have scales and code widths of their own, differ as much as they can.
#ifndef SWIVEL_CALIBRATE_TRANSFORM_H_
#define SWIVEL_CALIBRATE_TRANSFORM_H_

#include <algorithm>
#include <cstdint>

#include "base/status.h"
#include "calibrate/moments.h"
#include "math/key_transform.h"

namespace swivel {

// kHadamard  T = R over the whole width: no statistics but the mean.
// kDiagonal  T = R diag((std_q / std_k)^1/2): the minimum over diagonal matrices.
// kFull      the above.
// The first two have one segment.
enum class TransformKind : uint8_t { kHadamard, kDiagonal, kFull };

// Off-diagonal elements of both moments are multiplied by this before a full transform is made. Measured: without it a transform fails
// beyond the positions it was fitted to, at width 256 and with foreign text; few tokens need more of it.
inline constexpr double kFileShrink = .5;
inline constexpr double kSelfShrink = .3;

// `width` must be a multiple of 16 up to kMaxRotationWidth. Without `use_mean` the mean is zero, and the moments are taken around zero
// unless they are those of groups. T is scaled so that y^2 is 1 on average over the keys and the coordinates of a segment.
//
// What has no variance counts as if it had a little (a share of the mean variance, or 1 if there is none), queries without weight as
// isotropic: the result is always finite. Errors: kInvalidArgument for a wrong width or shrink (0 to 1), for moments that are not finite,
// for no keys, and for a full transform of fewer than 16 keys; kInternal where a decomposition fails.
StatusOr<KeyTransform> MakeTransform(const HeadMoments& moments, TransformKind kind, double shrink, bool use_mean, bool two_segments);

// The logit noise of a code of one scale and width under `transform`, as a share of what it is under a rotation:
//   tr(S_q T^-1 T^-T) tr(T S_k T^T) / (tr(S_q) tr(S_k))
// A prediction for choosing and reporting; it does not know that two segments have scales of their own. 1 where a trace is zero.
double NoiseRatio(const HeadMoments& moments, const KeyTransform& transform);

}  // namespace swivel

#endif  // SWIVEL_CALIBRATE_TRANSFORM_H_
