// store=FILE: what the layers of a context find out about their keys, kept for later runs.
#ifndef SWIVEL_PLUGIN_BASIS_KEEPER_H_
#define SWIVEL_PLUGIN_BASIS_KEEPER_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "calibrate/calibration_file.h"

namespace swivel::plugin {

// Of one context. Layers tell when their statistics are final; with the last of them the file is written, once, and never over another one.
// One thread at a time.
class BasisKeeper {
 public:
  // True when the process has one model mapped, so that a file can be told to belong to it. Else says why not, once.
  static bool KnowsModel(const std::string& path);
  // Null where KnowsModel is false.
  static std::shared_ptr<BasisKeeper> Create(const std::string& path, bool group_means);

  void Expect(int layer) { expected_.insert(layer); }
  // The statistics of a layer, made from `tokens` tokens. A layer that comes again (its cache was cleared) is ignored.
  void Add(LayerMoments layer, int tokens);

 private:
  BasisKeeper() = default;
  std::string path_;
  Calibration calibration_;
  std::set<int> expected_;  // layers that have not come yet
};

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_BASIS_KEEPER_H_
