// Where a staged layer's keys get their basis from: a calibration file, or the context's own first tokens.
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

namespace swivel::plugin {

// Of one layer whose spec asks for a calibrated transform. Make may run on several threads, for different heads.
class KeyBasis {
 public:
  // `file`: moments to use, kept alive by `owner`; null: self-calibration.
  KeyBasis(const CacheSpec& spec, LayerCache* cache, const LayerMoments* file, std::shared_ptr<const Calibration> owner);

  // True when everything is there that Make needs and Install has not been called since.
  bool ready() const { return !installed_ && (file_ != nullptr || self_->complete()); }
  // What attention calls are to be added to; null when none are wanted (any more).
  SelfCalibration* capture() { return self_ && !installed_ && !self_->complete() ? &*self_ : nullptr; }
  int num_heads() const { return cache_->num_heads(); }
  // "file …", "the first 128 tokens".
  std::string Source() const;

  void Make(int head);
  // Hands the transforms to the cache, which may pack from now on. An error leaves the layer exact.
  Status Install();
  // The rows are gone. What came from them goes too; what came from a file stays.
  void Clear();

 private:
  CacheSpec spec_;
  LayerCache* cache_;
  const LayerMoments* file_;
  std::shared_ptr<const Calibration> owner_;
  std::optional<SelfCalibration> self_;
  std::vector<KeyTransform> transforms_;
  std::vector<Status> results_;
  bool installed_ = false;
};

// The moments that `spec` names for a layer of `num_heads` keys of `width`, or none for self-calibration. Errors: those of ReadCalibration;
// kInvalidArgument for a file that does not fit the layer or was made for another model than the process has mapped.
struct NamedMoments {
  const LayerMoments* layer = nullptr;
  std::shared_ptr<const Calibration> file;
};
StatusOr<NamedMoments> FindMoments(const CacheSpec& spec, int layer, int num_heads, int width);

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_KEY_BASIS_H_
