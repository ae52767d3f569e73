#include "plugin/kv_caches.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "cache/make_layer.h"
#include "cache/spec_layers.h"
#include "plugin/buffer_type.h"
#include "plugin/host.h"
#include "plugin/key_bias.h"
#include "plugin/log.h"

namespace swivel::plugin {

KvCaches& caches() {
  static auto* all = new KvCaches;
  return *all;
}

bool InOurBuffer(const ggml_tensor* root) { return root->buffer != nullptr && root->buffer->buft == OurBufferType(); }

KvBuffer* BufferOf(const ggml_tensor* root) { return InOurBuffer(root) ? static_cast<KvBuffer*>(root->buffer->context) : nullptr; }

void KvCaches::Add(KvBuffer* buffer) {
  std::lock_guard lock(mutex_);
  buffers_.push_back(buffer);
}

void KvCaches::Remove(KvBuffer* buffer) {
  std::lock_guard lock(mutex_);
  std::erase(buffers_, buffer);
  EndBuffer(*buffer);
}

void KvCaches::EndBuffer(const KvBuffer& buffer) {
  if (buffer.tensors.empty()) return;
  Totals& totals = ended_[buffer.context];
  totals.Add(Sum(buffer));
  for (const KvBuffer* other : buffers_) {
    if (other->context == buffer.context && !other->tensors.empty()) return;
  }
  // A context that was only planned (the memory-fit step) has nothing to tell.
  if (totals.rows_written + totals.rows_restored > 0) Say(TotalsLine(buffer.context, totals), TotalsEvent(buffer.context, totals));
  ended_.erase(buffer.context);
}

void KvCaches::SayTotalsAtExit() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  while (!buffers_.empty()) {
    const KvBuffer* last = buffers_.back();
    buffers_.pop_back();
    EndBuffer(*last);
  }
}

void KvCaches::RecordRestored(std::span<KvTensor* const> tensors) {
  for (const KvTensor* tensor : tensors) {
    KvBuffer& buffer = tensor->buffer();
    if (buffer.counters.restored_since_graph.load(std::memory_order_relaxed) == 0) continue;
    const uint64_t rows = buffer.counters.restored_since_graph.exchange(0);
    Record(Event("state_restored").Number("context", int64_t{buffer.context}).Number("rows", static_cast<int64_t>(rows)));
  }
}

int KvCaches::NewContext() {
  std::lock_guard lock(mutex_);
  return ++last_context_;
}

KvTensor* KvCaches::Register(KvBuffer* buffer, const ggml_tensor* root) {
  auto* address = static_cast<uint8_t*>(root->data);
  auto tensor = std::make_unique<KvTensor>(buffer, *root, !buffer->sized_by_us);
  if (buffer->written_unknown) tensor->MarkWritten();
  return (buffer->tensors[address] = std::move(tensor)).get();
}

KvTensor* KvCaches::Find(const ggml_tensor* tensor, size_t* offset) {
  const ggml_tensor* root = RootOf(tensor);
  KvBuffer* buffer = BufferOf(root);
  if (buffer == nullptr || root->data == nullptr || !HasCacheName(root)) return nullptr;
  auto* address = static_cast<uint8_t*>(root->data);

  std::lock_guard lock(mutex_);
  if (IsPackableRoot(root)) {
    if (offset != nullptr) *offset = tensor->view_src != nullptr ? tensor->view_offs : 0;
    const auto known = buffer->tensors.find(address);
    return known != buffer->tensors.end() ? known->second.get() : Register(buffer, root);
  }
  // An RPC server rebuilds the tensor of a set, get or copy request without view_src: "cache_k_l0 (view)" whose data is root + offset.
  // Addresses tell, because an RPC client gives every tensor its full size.
  if (buffer->sized_by_us) return nullptr;
  auto next = buffer->tensors.upper_bound(address);
  if (next == buffer->tensors.begin()) return nullptr;
  KvTensor* known = std::prev(next)->second.get();
  const size_t distance = static_cast<size_t>(address - known->address());
  if (distance >= known->nominal_bytes()) return nullptr;
  if (offset != nullptr) *offset = distance + (tensor->view_src != nullptr ? tensor->view_offs : 0);
  return known;
}

LayerPlace KvCaches::PlaceOf(const KvTensor& tensor) {
  const KvBuffer& own = tensor.buffer();
  std::set<int> layers;
  for (const KvBuffer* buffer : buffers_) {
    if (buffer != &own && (own.context == 0 || buffer->context != own.context)) continue;
    for (const auto& entry : buffer->tensors) layers.insert(entry.second->layer());
  }
  const auto ordinal = std::distance(layers.begin(), layers.find(tensor.layer()));
  return {static_cast<int>(ordinal), static_cast<int>(layers.size())};
}

Status KvCaches::Learn(const ggml_tensor* attention) {
  const ggml_tensor* k_view = attention->src[1];
  const ggml_tensor* v_view = attention->src[2];
  KvTensor* k = Find(k_view);
  KvTensor* v = Find(v_view);
  if (k == nullptr || v == nullptr) return {};
  if (k == v) {
    return Status::Unsupported("layer " + std::to_string(k->layer()) +
                               " keeps K and V in one tensor (multi-head latent attention), which the plugin does not serve yet; run this "
                               "model without it");
  }
  std::lock_guard lock(mutex_);
  for (const auto& [tensor, view] : {std::pair{k, k_view}, std::pair{v, v_view}}) {
    if (Status status = tensor->Learn(static_cast<int>(view->ne[0]), static_cast<int>(view->ne[2])); !status.ok()) return status;
    if (tensor->checked()) continue;
    tensor->SetPartner(tensor == k ? v : k);
    const CacheSpec& spec = tensor->buffer().spec;
    const LayerPlace place = PlaceOf(*tensor);
    bool in_groups = false;
    for (int head = 0; head < tensor->num_heads(); ++head) {
      const Codec& codec = GetCodec(spec.CodecFor(tensor->side(), place.ordinal, place.num_layers, head));
      if (Status status = CheckWidth(codec, tensor->width()); !status.ok()) {
        return Status::Unsupported(status.message() + " (" + tensor->name() + "); choose another codec by SWIVEL_KV");
      }
      in_groups |= spec.PacksGroups(codec);
      if (tensor == k) WarnOfKeyBias(spec, codec);
    }
    if (tensor == k && spec.Calibrated() && in_groups) {
      if (auto moments = FindMoments(spec, k->layer(), k->num_heads(), k->width()); !moments.ok()) return moments.status();
    }
    tensor->SetChecked();
  }
  return {};
}

std::shared_ptr<BasisKeeper> KvCaches::KeeperOf(const KvBuffer& buffer) {
  if (buffer.spec.store.empty()) return nullptr;
  std::weak_ptr<BasisKeeper>& known = keepers_[buffer.context];
  std::shared_ptr<BasisKeeper> keeper = known.lock();
  if (keeper == nullptr) known = keeper = BasisKeeper::Create(buffer.spec.store, buffer.spec.group_mean);
  return keeper;
}

Status KvCaches::ChooseBasis(const CacheSpec& spec, LayerCache* layer, KvTensor* k) {
  if (!TakesBasis(*layer) || !spec.Calibrated()) {
    SetBasis(layer, std::vector<KeyTransform>(static_cast<size_t>(k->num_heads()), HadamardTransform(k->width())));
    layer->AllowPacking();
    return {};
  }
  StatusOr<NamedMoments> moments = FindMoments(spec, k->layer(), k->num_heads(), k->width());
  if (!moments.ok()) return moments.status();
  auto keeper = moments->layer == nullptr ? KeeperOf(k->buffer()) : nullptr;
  k->SetBasis(std::make_unique<KeyBasis>(spec, k->layer(), layer, std::move(*moments), std::move(keeper)));
  return {};
}

void KvCaches::CreateStores(std::span<KvTensor* const> tensors) {
  std::lock_guard lock(mutex_);
  std::set<int> contexts;
  for (KvTensor* tensor : tensors) {
    if (tensor->width() == 0 || !tensor->plain()) continue;
    // Buffers that came through RPC carry no names; the first graph that reads them tells which belong together.
    if (tensor->buffer().context == 0) {
      const int context = ++last_context_;
      for (KvTensor* other : tensors) {
        if (other->buffer().context == 0) other->buffer().context = context;
      }
    }
    contexts.insert(tensor->buffer().context);
  }
  for (const int context : contexts) CreateStoresOfContext(context);
}

size_t KvCaches::NominalBytes(const KvBuffer& own) const {
  size_t bytes = 0;
  for (const KvBuffer* buffer : buffers_) {
    if (buffer != &own && (own.context == 0 || buffer->context != own.context)) continue;
    for (const auto& entry : buffer->tensors) bytes += entry.second->nominal_bytes();
  }
  return bytes;
}

Status KvCaches::CreateStore(KvTensor* tensor) {
  const CacheSpec& spec = tensor->buffer().spec;
  tensor->Release();
  if (!spec.Staged()) {
    const LayerPlace place = PlaceOf(*tensor);
    const Codec& codec = GetCodec(spec.CodecFor(tensor->side(), place.ordinal, place.num_layers));
    return tensor->Pack(codec, spec.ScaleFor(tensor->side(), codec));
  }
  KvTensor* k = tensor->side() == Side::kKey ? tensor : tensor->partner();
  KvTensor* v = k->partner();
  if (!v->plain()) return Status::Internal("its partner " + v->name() + " is stored already");
  v->Release();
  k->Release();
  // A context's budget is dealt out to its layers as their rows are long.
  const double share = static_cast<double>(k->nominal_bytes() + v->nominal_bytes()) / static_cast<double>(NominalBytes(tensor->buffer()));
  // Rounded up: 0 would be no budget at all.
  const auto budget = static_cast<size_t>(std::ceil(static_cast<double>(spec.budget_bytes) * share));
  auto layer = MakeLayer(spec, PlaceOf(*k), k->shape(), v->shape(), budget);
  if (!layer.ok()) return layer.status();
  std::shared_ptr<LayerCache> shared = std::move(*layer);
  if (Status status = ChooseBasis(spec, shared.get(), k); !status.ok()) return status;
  k->Stage(shared);
  v->Stage(shared);
  return {};
}

void KvCaches::SayUnmetOverrides(int context) {
  std::vector<LayerCodec> unmet;
  int layers = 0;
  std::map<int, int> heads;  // by layer; of a tensor that no graph has read yet they are not known
  for (const KvBuffer* buffer : buffers_) {
    if (buffer->context != context) continue;
    unmet = buffer->spec.layers;
    if (unmet.empty()) return;
    for (const auto& entry : buffer->tensors) {
      const LayerPlace place = PlaceOf(*entry.second);
      layers = place.num_layers;
      heads[place.ordinal] = std::max(heads[place.ordinal], entry.second->width() == 0 ? INT_MAX : entry.second->num_heads());
    }
  }
  std::erase_if(unmet, [&](const LayerCodec& codec) {
    const auto has_head = [&](const std::pair<const int, int>& layer) {
      return codec.first <= layer.first && layer.first <= codec.last && codec.last_head < layer.second;
    };
    return codec.last < layers && std::any_of(heads.begin(), heads.end(), has_head);
  });
  if (!unmet.empty()) SayOnce("WARNING: " + LayerItems(unmet).substr(1) + " names layers or KV heads that this cache does not have; they count from 0");
}

void KvCaches::CreateStoresOfContext(int context) {
  int created = 0;
  size_t packed_bytes = 0, f16_bytes = 0;
  std::string spec;
  for (KvBuffer* buffer : buffers_) {
    if (buffer->context != context) continue;
    spec = buffer->spec.ToString();
    for (auto& entry : buffer->tensors) {
      KvTensor& tensor = *entry.second;
      if (tensor.width() == 0) continue;
      if (tensor.plain()) {
        if (Status status = CreateStore(&tensor); !status.ok()) {
          SayOnce(tensor.name() + " stays uncompressed: " + status.message());
          continue;
        }
      } else if (tensor.said()) {
        continue;
      }
      tensor.SetSaid();
      ++created;
      packed_bytes += tensor.PackedCapacityBytes();
      f16_bytes += tensor.nominal_bytes();
    }
  }
  if (created == 0) return;
  SayUnmetOverrides(context);
  std::replace(spec.begin(), spec.end(), ',', ' ');
  char sizes[96];
  std::snprintf(sizes, sizeof(sizes), "%.2f bits per value, %.1f MiB where f16 takes %.1f MiB",
                16.0 * static_cast<double>(packed_bytes) / static_cast<double>(f16_bytes), static_cast<double>(packed_bytes) / 1048576.0,
                static_cast<double>(f16_bytes) / 1048576.0);
  const std::string line = "KV cache " + std::to_string(created) + " tensors, " + spec + ", " + sizes;
  Event event("cache_created");
  event.Number("context", int64_t{context}).Number("tensors", int64_t{created}).Text("kv", spec);
  event.Number("packed_bytes", static_cast<int64_t>(packed_bytes)).Number("f16_bytes", static_cast<int64_t>(f16_bytes));
  Say(line, event);
}

bool KvCaches::CopyRows(KvTensor* from, size_t from_offset, KvTensor* to, size_t to_offset, size_t size) {
  const size_t row = from->row_bytes();
  if (from->plain() || to->plain() || from_offset % row != 0 || to_offset % row != 0 || size % row != 0) return false;
  if (from == to) {
    if (from_offset == to_offset) return true;
    if (from_offset < to_offset + size && to_offset < from_offset + size) return false;
  }
  const auto from_cell = static_cast<int64_t>(from_offset / row), to_cell = static_cast<int64_t>(to_offset / row);
  const auto count = static_cast<int64_t>(size / row);
  if (from->layer_cache() != nullptr) return from == to && from->layer_cache()->CopyCells(from->side(), from_cell, to_cell, count);
  const GroupStore* source = from->row_store();
  GroupStore* target = to->row_store();
  if (target == nullptr || &source->codec() != &target->codec() || source->side() != target->side() || source->shape() != target->shape())
    return false;
  return target->CopyCells(*source, from_cell, to_cell, count);
}

void KvCaches::Clear(KvBuffer* buffer, uint8_t byte) {
  std::lock_guard lock(mutex_);
  buffer->written_unknown = byte != 0;
  for (auto& entry : buffer->tensors) entry.second->Fill(byte);
}

}  // namespace swivel::plugin
