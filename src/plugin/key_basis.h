// Where a staged layer's keys get their basis from: a calibration file, the context's own first tokens, or those of an earlier context.
#ifndef SWIVEL_PLUGIN_KEY_BASIS_H_
#define SWIVEL_PLUGIN_KEY_BASIS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cache/layer_cache.h"
#include "cache/make_layer.h"
#include "cache/spec.h"
#include "calibrate/calibration_file.h"
#include "calibrate/self_calibration.h"
#include "plugin/basis_keeper.h"

namespace swivel::plugin {

// Moments that are there already, kept alive by `file`; null: self-calibration.
struct NamedMoments {
  const LayerMoments* layer = nullptr;
  std::shared_ptr<const Calibration> file;
};

// Of one layer whose spec asks for a calibrated transform. Make may run on several threads, for different heads.
class KeyBasis {
 public:
  // `layer`: the model's number. `keeper`: gets the moments of a self-calibration; may be null.
  KeyBasis(const CacheSpec& spec, int layer, LayerCache* cache, NamedMoments moments, std::shared_ptr<BasisKeeper> keeper);

  // True when everything is there that Make needs and Install has not been called since.
  bool ready() const { return !installed_ && (named_.layer != nullptr || self_->complete()); }
  // What attention calls are to be added to; null when none are wanted (any more).
  SelfCalibration* capture() { return self_ && !installed_ && !self_->complete() ? &*self_ : nullptr; }
  int num_heads() const { return cache_->num_heads(); }
  // "m.swivel", "the first 512 tokens".
  std::string Source() const;

  void Make(int head);
  // Hands the transforms to the cache, which may pack from now on. An error leaves the layer exact.
  Status Install();
  // The row of a cell, counted over all streams, is about to become another one.
  void ForgetRow(int64_t cell);
  // The rows are gone. What came from them goes too; what came from a file stays.
  void Clear();

 private:
  CacheSpec spec_;
  int layer_;
  LayerCache* cache_;
  NamedMoments named_;
  std::shared_ptr<BasisKeeper> keeper_;
  std::optional<SelfCalibration> self_;
  std::vector<HeadMoments> moments_;  // for the keeper
  std::vector<KeyTransform> transforms_;
  std::vector<Status> results_;
  bool installed_ = false;
};

// The moments that `spec` names (calibration=) or that an earlier context has kept (store=) for a layer of `num_heads` keys of `width`, or none for
// self-calibration. Errors: those of ReadCalibration; kInvalidArgument for a file that does not fit the layer or the spec or was made for another
// model than the process has mapped.
StatusOr<NamedMoments> FindMoments(const CacheSpec& spec, int layer, int num_heads, int width);

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_KEY_BASIS_H_
