#include "plugin/basis_keeper.h"

#include <algorithm>
#include <utility>

#include "plugin/log.h"
#include "plugin/mapped_model.h"

namespace swivel::plugin {
namespace {

StatusOr<uint64_t> MappedFingerprint() {
  static auto* known = new OfMappedModel<uint64_t>([](const std::string& path) { return ModelFingerprint(path); });
  return known->Get();
}

}  // namespace

bool BasisKeeper::KnowsModel(const std::string& path) {
  const Status status = MappedFingerprint().status();
  if (!status.ok()) SayOnce("store=" + path + " is neither read nor written: which model runs is not known: " + status.message());
  return status.ok();
}

std::shared_ptr<BasisKeeper> BasisKeeper::Create(const std::string& path, bool group_means) {
  if (!KnowsModel(path)) return nullptr;
  std::shared_ptr<BasisKeeper> keeper(new BasisKeeper);
  keeper->path_ = path;
  keeper->calibration_.fingerprint = MappedFingerprint().value();
  keeper->calibration_.group_means = group_means;
  keeper->calibration_.self = true;
  keeper->calibration_.num_chunks = keeper->calibration_.planned_chunks = 1;
  return keeper;
}

void BasisKeeper::Add(LayerMoments layer, int tokens) {
  if (expected_.erase(layer.layer) == 0) return;
  calibration_.num_tokens = std::max<int64_t>(calibration_.num_tokens, tokens);
  calibration_.layers.push_back(std::move(layer));
  if (!expected_.empty()) return;
  std::sort(calibration_.layers.begin(), calibration_.layers.end(), [](const auto& a, const auto& b) { return a.layer < b.layer; });
  calibration_.chunk_tokens = static_cast<int>(calibration_.num_tokens);
  calibration_.description = "self, " + std::to_string(calibration_.num_tokens) + " tokens";
  const Status status = WriteCalibration(path_, calibration_, FileThere::kKeepFile);
  calibration_.layers.clear();
  if (!status.ok()) return Say("the basis of the keys is not kept: " + status.message());
  Say("the basis of the keys is kept in " + path_, Event("basis_kept"));
}

}  // namespace swivel::plugin
