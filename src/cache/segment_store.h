// The rows of one KV tensor packed by groups (codec/segments.h): keys in a calibrated basis with group means, values as trellis codes with
// 8-bit scales.
#ifndef SWIVEL_CACHE_SEGMENT_STORE_H_
#define SWIVEL_CACHE_SEGMENT_STORE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/lazy_memory.h"
#include "base/status.h"
#include "cache/packed_store.h"
#include "codec/segments.h"
#include "math/key_transform.h"

namespace swivel {

// Memory order as in GroupStore; codes and side data are two regions.
class SegmentStore final : public PackedStore {
 public:
  // `codec`: the trellis codec of the layout's mean bits, which names the store. Errors: as of GroupStore::Create.
  static StatusOr<std::unique_ptr<SegmentStore>> Create(const Codec& codec, const SegmentLayout& layout, ScaleMode mode, const StoreShape& shape);

  // The change of basis of each head of a store of keys; while no row is packed.
  void SetTransforms(std::vector<KeyTransform> transforms) { transforms_ = std::move(transforms); }
  // False: keys without a basis, nothing can be packed yet.
  bool ready() const { return layout_.side == Side::kValue || !transforms_.empty(); }
  const SegmentLayout& layout() const { return layout_; }

  const Codec& codec() const override { return *codec_; }
  Side side() const override { return layout_.side; }
  const StoreShape& shape() const override { return shape_; }
  KvView View() const override;

  // Precondition: ready(). The first rows of a group fix its mean and its largest scales; a few later ones are coded against these, many
  // make the group be coded again as a whole.
  TokenMask PackGroup(const Kernels& kernels, int64_t group, int head, const GroupRows& rows, TokenMask tokens, TokenMask packed) override;
  void DecodeHead(int64_t cell, int head, float* row) const override;
  size_t GroupBytes() const override { return (layout_.CodesBytes() + side_bytes_) * static_cast<size_t>(shape_.num_heads); }
  void DiscardGroups(int64_t first, int64_t count) override;
  // Whole groups only.
  bool CopyCells(const PackedStore& source, int64_t from, int64_t to, int64_t count) override;
  void Clear() override;  // the basis stays

  size_t CapacityBytes() const override { return codes_.size() + side_.size(); }
  size_t ResidentBytes() const override { return codes_.ResidentBytes() + side_.ResidentBytes(); }

 private:
  SegmentStore() = default;
  uint8_t* Codes(int64_t group, int head) const;
  uint8_t* SideData(int64_t group, int head) const;
  // From the model's basis to that of the codes, before the group's mean is subtracted.
  void ToBasis(const Kernels& kernels, int head, const uint16_t* row, float* y) const;

  const Codec* codec_ = nullptr;
  SegmentLayout layout_;
  ScaleMode mode_ = ScaleMode::kMatched;
  StoreShape shape_;
  size_t side_bytes_ = 0;  // of a group
  std::vector<KeyTransform> transforms_;
  LazyMemory codes_, side_;
};

}  // namespace swivel

#endif  // SWIVEL_CACHE_SEGMENT_STORE_H_
