// The C interface: checks, translates, and keeps exceptions inside.
#include "swivel/swivel.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "base/version.h"
#include "cache/group_store.h"
#include "cache/spec.h"
#include "kernel/attend/attend.h"

struct swivel_cache {
  const swivel::Kernels* kernels;
  std::unique_ptr<swivel::GroupStore> k, v;
};

struct swivel_attention {
  const swivel::Kernels* kernels;
  swivel::AttendPlan plan;
  std::unique_ptr<uint8_t[]> memory;
  uint8_t* counters;
  uint8_t* scratch;
};

namespace {

using swivel::Status;
using swivel::StatusCode;

swivel_status Report(const Status& status, swivel_error* error) {
  if (error != nullptr) {
    const size_t length = std::min(status.message().size(), sizeof(error->message) - 1);
    std::memcpy(error->message, status.message().data(), length);
    error->message[length] = '\0';
  }
  switch (status.code()) {
    case StatusCode::kOk:
      return SWIVEL_OK;
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
      return SWIVEL_INVALID_ARGUMENT;
    case StatusCode::kUnsupported:
      return SWIVEL_UNSUPPORTED;
    case StatusCode::kOutOfMemory:
      return SWIVEL_OUT_OF_MEMORY;
    default:
      return SWIVEL_INTERNAL;
  }
}

// Allocation failures are the only exceptions that can arise below.
template <class Function>
swivel_status Guard(swivel_error* error, Function function) {
  try {
    return Report(function(), error);
  } catch (const std::bad_alloc&) {
    return Report(Status::OutOfMemory("out of memory"), error);
  } catch (...) {
    return Report(Status::Internal("unexpected exception"), error);
  }
}

Status CheckRange(const swivel_cache* cache, int64_t first_cell, int64_t count) {
  if (cache == nullptr) return Status::Invalid("cache is NULL");
  const int64_t num_cells = cache->k->shape().num_cells;
  if (first_cell >= 0 && count >= 0 && first_cell <= num_cells && count <= num_cells - first_cell) return Status();
  return Status::Invalid("cells [" + std::to_string(first_cell) + ", +" + std::to_string(count) + ") are outside the cache of " +
                         std::to_string(num_cells) + " cells");
}

Status CreateCache(const swivel_cache_params& params, swivel_cache** cache) {
  if (params.spec == nullptr) return Status::Invalid("spec is NULL; " + swivel::SpecHelp());
  auto spec = swivel::ParseSpec(params.spec);
  if (!spec.ok()) return spec.status();
  if (spec->Staged()) {
    return Status::Unsupported("the C interface packs rows as they are written; transform=, sinks=, window=, the presets and codecs of whole groups "
                               "(kivi), which keep rows exact first, are served by the plugin only");
  }
  if (params.layer < 0 || params.layer >= params.num_layers) {
    return Status::Invalid("layer " + std::to_string(params.layer) + " is not within 0 and num_layers " + std::to_string(params.num_layers));
  }
  auto target = swivel::ChooseTarget();
  if (!target.ok()) return target.status();
  auto created = std::make_unique<swivel_cache>();
  created->kernels = &swivel::KernelsFor(*target);
  for (const swivel::Side side : {swivel::Side::kKey, swivel::Side::kValue}) {
    swivel::StoreShape shape;
    shape.width = side == swivel::Side::kKey ? params.k_width : params.v_width;
    shape.num_heads = params.num_kv_heads;
    shape.num_cells = params.num_cells;
    const swivel::Codec& codec = swivel::GetCodec(spec->CodecFor(side, params.layer, params.num_layers));
    auto store = swivel::GroupStore::Create(codec, side, spec->ScaleFor(side, codec), shape);
    if (!store.ok()) return store.status();
    (side == swivel::Side::kKey ? created->k : created->v) = std::move(*store);
  }
  *cache = created.release();
  return Status();
}

Status CreateAttention(const swivel_cache& cache, const swivel_attention_params& params, swivel_attention** attention) {
  if (params.num_cells > cache.k->shape().num_cells) {
    return Status::Invalid("num_cells " + std::to_string(params.num_cells) + " exceeds the cache's " +
                           std::to_string(cache.k->shape().num_cells));
  }
  swivel::AttendArgs args;
  args.k = cache.k->View();
  args.v = cache.v->View();
  args.num_heads = params.num_heads;
  args.num_kv_heads = cache.k->shape().num_heads;
  args.num_queries = params.num_queries;
  args.num_cells = params.num_cells;
  args.q = params.q;
  args.q_head_stride = args.k.width * sizeof(float);
  args.q_query_stride = args.q_head_stride * params.num_heads;
  args.out = params.out;
  args.out_head_stride = args.v.width * sizeof(float);
  args.out_query_stride = args.out_head_stride * params.num_heads;
  args.mask = params.mask;
  args.mask_query_stride = static_cast<size_t>(params.num_cells) * sizeof(uint16_t);
  args.sinks = params.sinks;
  args.scale = params.scale;
  args.logit_softcap = params.logit_softcap;
  args.max_bias = params.max_bias;
  auto created = std::make_unique<swivel_attention>();
  created->kernels = cache.kernels;
  const Status status = swivel::AttendPlan::Make(args, params.max_threads, &created->plan);
  if (!status.ok()) return status;
  const size_t counters = created->plan.CounterBytes();
  created->memory.reset(new uint8_t[counters + created->plan.ScratchBytes() + 64]);
  created->counters = created->memory.get() + (64 - reinterpret_cast<uintptr_t>(created->memory.get()) % 64) % 64;
  created->scratch = created->counters + counters;
  created->plan.Bind(created->counters, created->scratch);
  *attention = created.release();
  return Status();
}

}  // namespace

const char* swivel_version(void) { return SWIVEL_VERSION; }

int swivel_codec_count(void) { return static_cast<int>(swivel::AllCodecs().size()); }

const char* swivel_codec_name(int index) { return index >= 0 && index < swivel_codec_count() ? swivel::AllCodecs()[index]->name : nullptr; }

double swivel_codec_bits(const char* name, int width) {
  if (name == nullptr) return 0.0;
  const auto codec = swivel::FindCodec(name);
  return codec.ok() && swivel::CheckWidth(*codec.value(), width).ok() ? swivel::BitsPerValue(*codec.value(), width) : 0.0;
}

swivel_status swivel_cache_create(const swivel_cache_params* params, swivel_cache** cache, swivel_error* error) {
  return Guard(error, [&] {
    if (params == nullptr || cache == nullptr) return Status::Invalid("params or cache is NULL");
    return CreateCache(*params, cache);
  });
}

const char* swivel_cache_target(const swivel_cache* cache) { return swivel::TargetName(cache->kernels->target); }

void swivel_cache_destroy(swivel_cache* cache) { delete cache; }

swivel_status swivel_cache_write(swivel_cache* cache, int64_t first_cell, int64_t count, const float* k, const float* v, swivel_error* error) {
  return Guard(error, [&] {
    const Status status = CheckRange(cache, first_cell, count);
    if (!status.ok()) return status;
    if (k == nullptr || v == nullptr) return Status::Invalid("k or v is NULL");
    const size_t k_row = static_cast<size_t>(cache->k->shape().width) * cache->k->shape().num_heads;
    const size_t v_row = static_cast<size_t>(cache->v->shape().width) * cache->v->shape().num_heads;
    for (int64_t i = 0; i < count; ++i) {
      cache->k->EncodeCell(*cache->kernels, first_cell + i, k + i * k_row);
      cache->v->EncodeCell(*cache->kernels, first_cell + i, v + i * v_row);
    }
    return Status();
  });
}

swivel_status swivel_cache_read(const swivel_cache* cache, int64_t first_cell, int64_t count, float* k, float* v, swivel_error* error) {
  return Guard(error, [&] {
    const Status status = CheckRange(cache, first_cell, count);
    if (!status.ok()) return status;
    const size_t k_row = static_cast<size_t>(cache->k->shape().width) * cache->k->shape().num_heads;
    const size_t v_row = static_cast<size_t>(cache->v->shape().width) * cache->v->shape().num_heads;
    for (int64_t i = 0; i < count; ++i) {
      if (k != nullptr) cache->k->DecodeCell(first_cell + i, k + i * k_row);
      if (v != nullptr) cache->v->DecodeCell(first_cell + i, v + i * v_row);
    }
    return Status();
  });
}

void swivel_cache_clear(swivel_cache* cache) {
  cache->k->Clear();
  cache->v->Clear();
}

swivel_memory swivel_cache_memory(const swivel_cache* cache) {
  swivel_memory memory;
  memory.capacity_bytes = cache->k->CapacityBytes() + cache->v->CapacityBytes();
  memory.resident_bytes = cache->k->ResidentBytes() + cache->v->ResidentBytes();
  const swivel::StoreShape& k = cache->k->shape();
  const swivel::StoreShape& v = cache->v->shape();
  const double k_bits = swivel::BitsPerValue(cache->k->codec(), k.width);
  const double v_bits = swivel::BitsPerValue(cache->v->codec(), v.width);
  memory.bits_per_value = (k_bits * k.width + v_bits * v.width) / (k.width + v.width);
  return memory;
}

swivel_status swivel_attention_create(const swivel_cache* cache, const swivel_attention_params* params, swivel_attention** attention,
                                      swivel_error* error) {
  return Guard(error, [&] {
    if (cache == nullptr || params == nullptr || attention == nullptr) return Status::Invalid("cache, params or attention is NULL");
    return CreateAttention(*cache, *params, attention);
  });
}

void swivel_attention_run(swivel_attention* attention, int thread, int num_threads) {
  attention->plan.Run(*attention->kernels, thread, num_threads);
}

void swivel_attention_reset(swivel_attention* attention) { attention->plan.Bind(attention->counters, attention->scratch); }

void swivel_attention_destroy(swivel_attention* attention) { delete attention; }
