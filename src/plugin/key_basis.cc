#include "plugin/key_basis.h"

#include <sys/stat.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

#include "calibrate/transform.h"
#include "plugin/log.h"
#include "plugin/mapped_model.h"

namespace swivel::plugin {
namespace {

Status Prefixed(const Status& status, const std::string& path) { return Status(status.code(), path + ": " + status.message()); }

// A file of store=, which must not be taken for one of calibration=, and the other way round: they are shrunk differently.
Status CheckKind(const Calibration& calibration, const CacheSpec& spec) {
  if (spec.store.empty()) {
    if (!calibration.self) return {};
    return Status::Invalid("was written by store=, not by swivel calibrate; use store= for it");
  }
  if (!calibration.self) return Status::Invalid("was not written by store=; it is left as it is. Name another file, or use calibration= for it");
  if (spec.self_tokens > 0 && calibration.num_tokens != spec.self_tokens) {
    return Status::Invalid("was made from " + std::to_string(calibration.num_tokens) + " tokens, not from the " + std::to_string(spec.self_tokens) +
                           " of calibration=self:; it is left as it is. Name another file, or leave calibration= away");
  }
  if (calibration.group_means == spec.group_mean) return {};
  return Status::Invalid(std::string("was written with group_mean=") + (calibration.group_means ? "on" : "off") +
                         "; it is left as it is. Name another file");
}

Status CheckMappedModel(const Calibration& calibration, const CacheSpec& spec, const std::string& path) {
  StatusOr<std::string> model = MappedModel();
  if (!model.ok()) {
    SayOnce(path + ": whether it was made for this model is not known: " + model.status().message());
    return {};
  }
  StatusOr<uint64_t> fingerprint = ModelFingerprint(*model);
  if (!fingerprint.ok()) return fingerprint.status();
  if (spec.store.empty()) return CheckModel(calibration, path, *fingerprint);
  if (calibration.fingerprint == *fingerprint) return {};
  return Status::Invalid(path + ": was written with another model (" + calibration.description + "); it is left as it is. Name another file");
}

// Files stay read while they do not change: each context of a process asks for each layer. Null: store= names a file that does not exist yet,
// or nobody knows whether it belongs to the model.
StatusOr<std::shared_ptr<const Calibration>> ReadOnce(const CacheSpec& spec) {
  static std::mutex mutex;
  static auto* files = new std::map<std::string, std::shared_ptr<const Calibration>>;
  const bool stored = !spec.store.empty();
  const std::string& path = stored ? spec.store : spec.calibration;
  struct stat info = {};
  const bool there = stat(path.c_str(), &info) == 0;
  if (stored && ((!there && errno == ENOENT) || !BasisKeeper::KnowsModel(path))) return std::shared_ptr<const Calibration>();
  const std::string key = path + '\n' + std::to_string(info.st_size) + '.' + std::to_string(info.st_mtim.tv_sec) + '.' + std::to_string(info.st_mtim.tv_nsec) + (stored ? " store" : "");
  std::lock_guard lock(mutex);
  const auto known = files->find(key);
  const bool read_before = there && known != files->end();
  std::shared_ptr<const Calibration> file;
  if (read_before) {
    file = known->second;
  } else {
    StatusOr<Calibration> read = ReadCalibration(path);
    if (!read.ok()) {
      return stored ? Status(read.status().code(), read.status().message() + "; store= leaves it as it is. Name another file") : read.status();
    }
    file = std::make_shared<const Calibration>(std::move(*read));
  }
  // What the spec asks for may differ from context to context; the model does not.
  if (Status status = CheckKind(*file, spec); !status.ok()) return Prefixed(status, path);
  if (read_before) return file;
  if (Status status = CheckMappedModel(*file, spec, path); !status.ok()) return status;
  (*files)[key] = file;
  return file;
}

}  // namespace

StatusOr<NamedMoments> FindMoments(const CacheSpec& spec, int layer, int num_heads, int width) {
  if (spec.calibration == "self" && spec.store.empty()) return NamedMoments{};
  StatusOr<std::shared_ptr<const Calibration>> file = ReadOnce(spec);
  if (!file.ok()) return file.status();
  if (*file == nullptr) return NamedMoments{};
  const std::string& path = spec.store.empty() ? spec.calibration : spec.store;
  const LayerMoments* moments = (*file)->Find(layer);
  if (moments == nullptr) return Status::Invalid(path + " has no keys of layer " + std::to_string(layer) + ": it is for another model");
  if (moments->width != width || static_cast<int>(moments->heads.size()) != num_heads) {
    return Status::Invalid(path + " is for " + std::to_string(moments->heads.size()) + " heads of " + std::to_string(moments->width) +
                           ", layer " + std::to_string(layer) + " has " + std::to_string(num_heads) + " of " + std::to_string(width));
  }
  return NamedMoments{moments, *file};
}

KeyBasis::KeyBasis(const CacheSpec& spec, int layer, LayerCache* cache, NamedMoments moments, std::shared_ptr<BasisKeeper> keeper)
    : spec_(spec), layer_(layer), cache_(cache), named_(std::move(moments)), keeper_(std::move(keeper)) {
  const int width = cache->width(Side::kKey);
  if (named_.layer == nullptr) {
    self_.emplace(width, spec.SelfTokens(width, cache->num_cells()));
    if (keeper_ != nullptr) keeper_->Expect(layer);
  }
  transforms_.resize(static_cast<size_t>(num_heads()));
  moments_.resize(transforms_.size());
  results_.resize(transforms_.size());
}

std::string KeyBasis::Source() const {
  if (named_.layer == nullptr) return "the first " + std::to_string(self_->wanted()) + " tokens";
  return named_.file->self ? spec_.store + " (" + named_.file->description + ")" : spec_.calibration;
}

void KeyBasis::Make(int head) {
  const auto h = static_cast<size_t>(head);
  const auto make = [&]() -> Status {
    StatusOr<HeadMoments> own = named_.layer != nullptr ? StatusOr<HeadMoments>(named_.layer->heads[h]) : self_->Moments(*cache_, head, spec_.group_mean);
    if (!own.ok()) return own.status();
    // What is kept makes the same basis in the next run.
    if (keeper_ != nullptr && self_) *own = moments_[h] = AsInFile(std::move(*own));
    const TransformKind kind = spec_.transform == Transform::kFull ? TransformKind::kFull : TransformKind::kDiagonal;
    const double shrink = spec_.shrink.value_or(named_.layer != nullptr && !named_.file->self ? kFileShrink : kSelfShrink);
    StatusOr<KeyTransform> transform = MakeTransform(*own, kind, shrink, spec_.TakesMean(), BasisHasHalves(*cache_));
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
  if (keeper_ != nullptr && self_) keeper_->Add({layer_, cache_->width(Side::kKey), std::move(moments_)}, self_->wanted());
  moments_.assign(transforms_.size(), {});
  return {};
}

void KeyBasis::ForgetRow(int64_t cell) {
  if (self_ && !installed_) self_->Forget(cell);
}

void KeyBasis::Clear() {
  if (named_.layer != nullptr) return;
  installed_ = false;
  self_->Clear();
  SetBasis(cache_, {});
  cache_->ForbidPacking();
}

}  // namespace swivel::plugin
