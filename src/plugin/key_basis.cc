#include "plugin/key_basis.h"

#include <map>
#include <mutex>
#include <utility>

#include "calibrate/transform.h"
#include "plugin/log.h"
#include "plugin/mapped_model.h"

namespace swivel::plugin {
namespace {

// Files stay read: each context of a process asks for each layer.
StatusOr<std::shared_ptr<const Calibration>> ReadOnce(const std::string& path) {
  static std::mutex mutex;
  static auto* files = new std::map<std::string, std::shared_ptr<const Calibration>>;
  std::lock_guard lock(mutex);
  if (const auto known = files->find(path); known != files->end()) return known->second;
  StatusOr<Calibration> read = ReadCalibration(path);
  if (!read.ok()) return read.status();
  StatusOr<std::string> model = MappedModel();
  if (model.ok()) {
    StatusOr<uint64_t> fingerprint = ModelFingerprint(*model);
    if (!fingerprint.ok()) return fingerprint.status();
    if (Status status = CheckModel(*read, path, *fingerprint); !status.ok()) return status;
  } else {
    SayOnce(path + ": whether it was made for this model is not known: " + model.status().message());
  }
  auto file = std::make_shared<const Calibration>(std::move(*read));
  (*files)[path] = file;
  return file;
}

}  // namespace

StatusOr<NamedMoments> FindMoments(const CacheSpec& spec, int layer, int num_heads, int width) {
  if (spec.calibration == "self") return NamedMoments{};
  StatusOr<std::shared_ptr<const Calibration>> file = ReadOnce(spec.calibration);
  if (!file.ok()) return file.status();
  const LayerMoments* moments = (*file)->Find(layer);
  if (moments == nullptr) return Status::Invalid(spec.calibration + " has no keys of layer " + std::to_string(layer) + ": it is for another model");
  if (moments->width != width || static_cast<int>(moments->heads.size()) != num_heads) {
    return Status::Invalid(spec.calibration + " is for " + std::to_string(moments->heads.size()) + " heads of " + std::to_string(moments->width) +
                           ", layer " + std::to_string(layer) + " has " + std::to_string(num_heads) + " of " + std::to_string(width));
  }
  return NamedMoments{moments, *file};
}

KeyBasis::KeyBasis(const CacheSpec& spec, LayerCache* cache, const LayerMoments* file, std::shared_ptr<const Calibration> owner)
    : spec_(spec), cache_(cache), file_(file), owner_(std::move(owner)) {
  const int width = cache->width(Side::kKey);
  if (file_ == nullptr) self_.emplace(width, SelfCalibrationTokens(width));
  transforms_.resize(static_cast<size_t>(num_heads()));
  results_.resize(transforms_.size());
}

std::string KeyBasis::Source() const { return file_ != nullptr ? spec_.calibration : "the first " + std::to_string(self_->wanted()) + " tokens"; }

void KeyBasis::Make(int head) {
  const auto h = static_cast<size_t>(head);
  const auto make = [&]() -> Status {
    StatusOr<HeadMoments> own = file_ != nullptr ? StatusOr<HeadMoments>(file_->heads[h]) : self_->Moments(*cache_, head, spec_.group_mean);
    if (!own.ok()) return own.status();
    const TransformKind kind = spec_.transform == Transform::kFull ? TransformKind::kFull : TransformKind::kDiagonal;
    const double shrink = spec_.shrink.value_or(file_ != nullptr ? kFileShrink : kSelfShrink);
    StatusOr<KeyTransform> transform = MakeTransform(*own, kind, shrink, spec_.mean, BasisHasHalves(*cache_));
    if (!transform.ok()) return transform.status();
    transforms_[h] = std::move(*transform);
    return {};
  };
  results_[h] = make();
}

Status KeyBasis::Install() {
  installed_ = true;
  if (self_) self_->Clear();
  for (const Status& result : results_) {
    if (!result.ok()) return result;
  }
  SetBasis(cache_, transforms_);
  cache_->AllowPacking();
  return {};
}

void KeyBasis::Clear() {
  if (file_ != nullptr) return;
  installed_ = false;
  self_->Clear();
  SetBasis(cache_, {});
  cache_->ForbidPacking();
}

}  // namespace swivel::plugin
