#include "eval/packed_attention.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace swivel {
namespace {

constexpr uint16_t kMinusInfinity = 0xfc00;  // f16

// Encodes a group of all heads; `row_of` is AttentionData::K or V.
void FillGroup(const AttentionData& data, const float* (AttentionData::*row_of)(int64_t) const, const Kernels& kernels, int64_t group,
               GroupStore* store) {
  const StoreShape& shape = store->shape();
  const size_t row_values = static_cast<size_t>(shape.width) * static_cast<size_t>(shape.num_heads);
  const int64_t first = group * kGroupTokens, count = std::min<int64_t>(kGroupTokens, shape.num_cells - first);
  std::vector<float> rows(static_cast<size_t>(count) * row_values);
  for (int64_t i = 0; i < count; ++i) std::copy_n((data.*row_of)(first + i), row_values, &rows[static_cast<size_t>(i) * row_values]);
  for (int head = 0; head < shape.num_heads; ++head) {
    store->EncodeGroup(kernels, group, head, &rows[static_cast<size_t>(head) * static_cast<size_t>(shape.width)], row_values,
                       TokenMask::First(count), {});
  }
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
  const int middle = spec.boundary_layers;
  const auto make_store = [&](Side side) {
    const Codec& codec = GetCodec(spec.CodecFor(side, middle, 2 * middle + 1));
    return GroupStore::Create(codec, side, spec.ScaleFor(side, codec), store_shape);
  };
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

  for (int i = 0; i < shape.num_layers; ++i) {
    auto layer = std::make_unique<Layer>();
    for (auto [side, store] : {std::pair{Side::kKey, &layer->k}, std::pair{Side::kValue, &layer->v}}) {
      StatusOr<std::unique_ptr<GroupStore>> made = make_store(side);
      if (!made.ok()) return made.status();
      *store = std::move(*made);
    }
    if (i > 0) {
      layer->k->CopyCells(*attention->layers_[0]->k, 0, 0, shape.num_cells);
      layer->v->CopyCells(*attention->layers_[0]->v, 0, 0, shape.num_cells);
    } else {
      team->Run([&](int thread) {  // rows of different groups may be written at once
        for (int64_t group = thread; group * kGroupTokens < shape.num_cells; group += team->size()) {
          FillGroup(data, &AttentionData::K, kernels, group, layer->k.get());
          FillGroup(data, &AttentionData::V, kernels, group, layer->v.get());
        }
      });
      const double bits = BitsPerValue(layer->k->codec(), shape.head_width) + BitsPerValue(layer->v->codec(), shape.head_width);
      attention->cache_bytes_ =
          static_cast<size_t>(bits / 8 * static_cast<double>(shape.RowValues()) * static_cast<double>(shape.num_cells));
    }
    args.k = layer->k->View();
    args.v = layer->v->View();
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
