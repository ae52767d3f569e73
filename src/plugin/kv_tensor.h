// One KV tensor of the host: what it looks like to the host (an f16 tensor) and where its rows really are.
//
// Three states. *Plain*: the rows are f16 in an image of the tensor's nominal size; so every tensor starts, because the head width is known
// only when the first attention over it is seen. *Packed*: each row is encoded into a GroupStore as it is written. *Staged*: the rows of K
// and V of a layer live in a LayerCache, which packs them later. In the last two the host's memory is not touched. Leaving the plain state
// imports what was written before.
//
// Threads: a tensor belongs to one context; the caches' lock (kv_caches.h) orders the creation of the store before its use elsewhere.
#ifndef SWIVEL_PLUGIN_KV_TENSOR_H_
#define SWIVEL_PLUGIN_KV_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/lazy_memory.h"
#include "base/status.h"
#include "cache/group_store.h"
#include "cache/layer_cache.h"
#include "ggml.h"
#include "plugin/key_basis.h"
#include "plugin/kv_names.h"

namespace swivel::plugin {

struct KvBuffer;

class KvTensor {
 public:
  // `root` must be a packable root with its data set. `nominal_room`: the host gave the tensor its full f16 size, so a plain image can
  // stay in place; otherwise the image gets memory of its own when it is needed.
  KvTensor(KvBuffer* buffer, const ggml_tensor& root, bool nominal_room);

  KvBuffer& buffer() const { return *buffer_; }
  const std::string& name() const { return name_; }
  int layer() const { return kv_.layer; }
  Side side() const { return kv_.side; }
  int64_t row_values() const { return row_values_; }
  size_t row_bytes() const { return static_cast<size_t>(row_values_) * 2; }
  int64_t num_cells() const { return num_cells_; }  // per stream
  int num_streams() const { return num_streams_; }
  int64_t total_cells() const { return num_cells_ * num_streams_; }
  size_t stream_bytes() const { return row_bytes() * static_cast<size_t>(num_cells_); }
  size_t nominal_bytes() const { return row_bytes() * static_cast<size_t>(total_cells()); }
  uint8_t* address() const { return address_; }

  // What an attention over this tensor says about it. Errors: kInvalidArgument when it does not fit or contradicts an earlier one.
  Status Learn(int width, int num_heads);
  int width() const { return width_; }  // 0: not learnt
  int num_heads() const { return num_heads_; }
  // True once a codec has been found that serves the width; saves the check in every later graph.
  bool checked() const { return checked_; }
  void SetChecked() { checked_ = true; }
  // True once the user has been told how the tensor is stored.
  bool said() const { return said_; }
  void SetSaid() { said_ = true; }

  StoreShape shape() const { return {width_, num_heads_, num_cells_, num_streams_}; }
  // Keeps address space back for the stores that the first graph creates: what cannot be had must be known while the host can still be told
  // so cleanly. Errors: kOutOfMemory. Creating a store begins with Release.
  Status Hold(size_t bytes);
  void Release() { held_ = LazyMemory(); }
  // Plain to packed. Errors: those of GroupStore::Create. Precondition: learnt and plain.
  Status Pack(const Codec& codec, ScaleMode mode);
  // Plain to staged. Precondition: learnt and plain, `layer` has this tensor's shape.
  void Stage(std::shared_ptr<LayerCache> layer);
  // Of staged keys in a calibrated basis, else null.
  KeyBasis* basis() const { return basis_.get(); }
  void SetBasis(std::unique_ptr<KeyBasis> basis) { basis_ = std::move(basis); }
  bool plain() const { return row_store_ == nullptr && layer_cache_ == nullptr; }
  GroupStore* row_store() const { return row_store_.get(); }      // of a packed tensor, else null
  LayerCache* layer_cache() const { return layer_cache_.get(); }  // of a staged tensor, else null
  // What packed rows take when all are packed, and occupy now (exact rows not counted). Precondition: not plain.
  size_t PackedCapacityBytes() const { return layer_cache_ != nullptr ? layer_cache_->CapacityBytes(kv_.side) : row_store_->CapacityBytes(); }
  size_t PackedResidentBytes() const { return layer_cache_ != nullptr ? layer_cache_->ResidentBytes(kv_.side) : row_store_->ResidentBytes(); }

  // The other side of a layer, as the first attention over both tells.
  KvTensor* partner() const { return partner_; }
  void SetPartner(KvTensor* partner) { partner_ = partner; }

  // The f16 image of the tensor, bytes [offset, offset + size); rows may be cut. Writing re-encodes only rows whose image differs from
  // what is stored: encoding is not idempotent, saving a state and restoring it must be.
  void Read(size_t offset, void* out, size_t size) const;
  void Write(size_t offset, const void* data, size_t size);
  // Every row reads as `byte` repeated; 0 gives the memory back.
  void Fill(uint8_t byte);

  // The plain image, created if need be. Precondition: plain. The caller may write to it (MarkWritten).
  uint8_t* Image();
  void MarkWritten() { written_ = true; }

 private:
  void ReadRow(int64_t cell, uint16_t* row) const;
  // `place`: which row of a write of `count` rows this is.
  void WriteRow(int64_t cell, const uint16_t* row, int64_t place, int64_t count);
  // Hands the rows of the plain image, if it was written, to WriteRow and drops it.
  void ImportImage();

  KvBuffer* buffer_;
  std::string name_;
  KvName kv_;
  int64_t row_values_, num_cells_;
  int num_streams_;
  uint8_t* address_;
  bool nominal_room_;

  int width_ = 0, num_heads_ = 0;
  bool checked_ = false, said_ = false;
  KvTensor* partner_ = nullptr;
  std::unique_ptr<GroupStore> row_store_;
  std::shared_ptr<LayerCache> layer_cache_;
  std::unique_ptr<KeyBasis> basis_;
  LazyMemory image_, held_;
  bool written_ = false;  // the plain image may hold rows
  mutable std::vector<float> floats_;
};

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_KV_TENSOR_H_
