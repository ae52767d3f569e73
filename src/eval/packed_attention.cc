#include "eval/packed_attention.h"

#include <algorithm>
#include <cmath>

#include "base/half.h"
#include "base/random.h"
#include "cache/make_layer.h"

namespace swivel {
namespace {

constexpr uint16_t kMinusInfinity = 0xfc00;  // f16

// A layer in the middle stands for all.
LayerPlace MiddleLayer(const CacheSpec& spec) { return {spec.boundary_layers, 2 * spec.boundary_layers + 1}; }

// Calls f(cell) for all cells, those of one group on one thread.
template <class F>
void ForCells(int64_t num_cells, ThreadTeam* team, F f) {
  team->Run([&](int thread) {
    for (int64_t group = thread; group * kGroupTokens < num_cells; group += team->size()) {
      for (int64_t cell = group * kGroupTokens; cell < std::min((group + 1) * kGroupTokens, num_cells); ++cell) f(cell);
    }
  });
}

}  // namespace

AttentionData::AttentionData(const AttentionShape& shape, int64_t distinct_cells)
    : distinct_cells_(std::min(distinct_cells, shape.num_cells)), row_values_(shape.RowValues()) {
  Random random(1);
  for (std::vector<float>* rows : {&k, &v}) {
    rows->resize(static_cast<size_t>(distinct_cells_) * row_values_);
    for (float& x : *rows) x = random.Normal();
  }
  q.resize(shape.QueryValues());
  for (float& x : q) x = 1.5f * random.Normal();
  mask.assign(static_cast<size_t>(shape.num_queries) * static_cast<size_t>(shape.num_cells), 0);
  for (int64_t query = 0; query < shape.num_queries; ++query) {
    const int64_t visible = std::max<int64_t>(shape.num_cells - shape.num_queries + query + 1, 1);
    uint16_t* row = &mask[static_cast<size_t>(query * shape.num_cells)];
    std::fill(row + visible, row + shape.num_cells, kMinusInfinity);
  }
}

Status PackedAttention::Layer::Encode(const CacheSpec& spec, const StoreShape& shape, const AttentionData& data, const Kernels& kernels,
                                      ThreadTeam* team) {
  for (auto [side, store] : {std::pair{Side::kKey, &k}, std::pair{Side::kValue, &v}}) {
    const LayerPlace place = MiddleLayer(spec);
    const Codec& codec = GetCodec(spec.CodecFor(side, place.ordinal, place.num_layers));
    StatusOr<std::unique_ptr<GroupStore>> made = GroupStore::Create(codec, side, spec.ScaleFor(side, codec), shape);
    if (!made.ok()) return made.status();
    *store = std::move(*made);
  }
  ForCells(shape.num_cells, team, [&](int64_t cell) {
    k->EncodeCell(kernels, cell, data.K(cell));
    v->EncodeCell(kernels, cell, data.V(cell));
  });
  return {};
}

Status PackedAttention::Layer::Stage(const CacheSpec& spec, const StoreShape& shape, const AttentionData& data, const Kernels& kernels,
                                     ThreadTeam* team) {
  auto made = MakeLayer(spec, MiddleLayer(spec), shape, shape, 0);
  if (!made.ok()) return made.status();
  staged = std::move(*made);
  // Random rows need no calibration, and any matrix takes as long as another.
  SetBasis(staged.get(), std::vector<KeyTransform>(static_cast<size_t>(shape.num_heads), HadamardTransform(shape.width)));
  staged->AllowPacking();
  ForCells(shape.num_cells, team, [&](int64_t cell) {
    for (const auto& [side, row] : {std::pair{Side::kKey, data.K(cell)}, std::pair{Side::kValue, data.V(cell)}}) {
      uint16_t* exact = staged->Row(side, cell);
      for (int i = 0; i < shape.width * shape.num_heads; ++i) exact[i] = F16FromF32(row[i]);
    }
  });
  for (int64_t cell = 0; cell < shape.num_cells; ++cell) {
    staged->MarkWritten(Side::kKey, cell, cell);
    staged->MarkWritten(Side::kValue, cell, cell);
  }
  std::vector<PackJob> jobs = staged->CollectReady(0);
  team->Run([&](int thread) {
    for (size_t j = static_cast<size_t>(thread); j < jobs.size(); j += static_cast<size_t>(team->size())) staged->RunJob(kernels, &jobs[j]);
  });
  staged->Commit(jobs);
  return {};
}

size_t PackedAttention::Layer::Bytes(const CacheSpec& spec, const StoreShape& shape) const {
  double bytes = 0;
  const LayerPlace place = MiddleLayer(spec);
  for (Side side : {Side::kKey, Side::kValue}) {
    const double values = static_cast<double>(shape.width) * shape.num_heads;
    const int64_t exact = staged != nullptr ? staged->Count().exact : 0;
    const double bits = spec.BitsOfLayer(side, place.ordinal, place.num_layers, shape.width, shape.num_heads);
    bytes += values * (bits / 8 * static_cast<double>(shape.num_cells - exact) + sizeof(uint16_t) * static_cast<double>(exact));
  }
  return static_cast<size_t>(bytes);
}

StatusOr<std::unique_ptr<PackedAttention>> PackedAttention::Create(const CacheSpec& spec, const AttentionShape& shape,
                                                                   const AttentionData& data, const Kernels& kernels, ThreadTeam* team) {
  std::unique_ptr<PackedAttention> attention(new PackedAttention);
  attention->kernels_ = &kernels;
  attention->team_ = team;
  attention->out_.resize(shape.QueryValues());

  StoreShape store_shape;
  store_shape.width = shape.head_width;
  store_shape.num_heads = shape.num_kv_heads;
  store_shape.num_cells = shape.num_cells;
  AttendArgs args;
  args.num_heads = shape.num_heads;
  args.num_kv_heads = shape.num_kv_heads;
  args.num_queries = shape.num_queries;
  args.num_cells = shape.num_cells;
  args.q = data.q.data();
  args.out = attention->out_.data();
  args.q_head_stride = args.out_head_stride = static_cast<size_t>(shape.head_width) * sizeof(float);
  args.q_query_stride = args.out_query_stride = args.q_head_stride * static_cast<size_t>(shape.num_heads);
  args.mask = data.mask.data();
  args.mask_query_stride = static_cast<size_t>(shape.num_cells) * sizeof(uint16_t);
  args.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_width));
  args.sparse_v = static_cast<float>(spec.sparse_v);

  for (int i = 0; i < shape.num_layers; ++i) {
    auto layer = std::make_unique<Layer>();
    if (Status status = spec.Staged() ? layer->Stage(spec, store_shape, data, kernels, team) : layer->Encode(spec, store_shape, data, kernels, team);
        !status.ok()) {
      return status;
    }
    if (layer->staged != nullptr) {
      layer->staged->Describe(&args);
    } else {
      args.k = layer->k->View();
      args.v = layer->v->View();
    }
    attention->cache_bytes_ = layer->Bytes(spec, store_shape);
    if (Status status = AttendPlan::Make(args, team->size(), &layer->plan); !status.ok()) return status;
    attention->layers_.push_back(std::move(layer));
  }
  const AttendPlan& plan = attention->layers_[0]->plan;
  const size_t counter_bytes = (plan.CounterBytes() + 63) / 64 * 64;
  attention->memory_.resize(counter_bytes + plan.ScratchBytes() + 64);
  attention->counters_ = attention->memory_.data() + 64 - reinterpret_cast<uintptr_t>(attention->memory_.data()) % 64;
  attention->scratch_ = attention->counters_ + counter_bytes;
  attention->work_ = [self = attention.get()](int thread) { self->running_->Run(*self->kernels_, thread, self->team_->size()); };
  return attention;
}

void PackedAttention::Run(int layer) {
  running_ = &layers_[static_cast<size_t>(layer)]->plan;
  running_->Bind(counters_, scratch_);
  team_->Run(work_);
}

}  // namespace swivel
