#include "gguf/shape.h"

#include <optional>

#include "gguf/architectures.h"

namespace swivel::gguf {
namespace {

// llama.cpp's LLAMA_MAX_LAYERS; the other two keep products of hostile numbers far from overflow.
constexpr int64_t kMaxLayers = 512;
constexpr int64_t kMaxHeads = 1 << 14;
constexpr int64_t kMaxWidth = 1 << 16;
constexpr int64_t kMaxTokens = int64_t{1} << 31;
// smallthinker's rule is the odd one: no key, no window (llama4: no key, 8192).
constexpr std::string_view kWindowNeedsKey = "smallthinker";

class ShapeReader {
 public:
  explicit ShapeReader(const Header& header) : header_(header) {}

  StatusOr<ModelShape> Run() {
    const std::optional<std::string> architecture = header_.String("general.architecture");
    if (!architecture) return Missing("general.architecture");
    shape_.architecture = *architecture;
    shape_.name = header_.String("general.name").value_or("");
    shape_.file_type = header_.Integer("general.file_type").value_or(-1);
    const CacheKind kind = KindOf(*architecture);
    if (kind == CacheKind::kNone) return Status::Unsupported("'" + *architecture + "' models have no KV cache: nothing to compress");
    if (kind == CacheKind::kRecurrent) {
      return Status::Unsupported("'" + *architecture + "' models have no attention: their state has a fixed size, there is no KV cache");
    }
    if (kind == CacheKind::kUndescribed) {
      return Status::Unsupported("the cache of '" + *architecture + "' models has several parts and is not described here yet");
    }

    Status status = Scalars();
    if (!status.ok()) return status;
    if (kind == CacheKind::kInterval) RecurrentByInterval();
    if (!(status = Windows()).ok()) return status;
    for (int i = 0; i < num_layers_; ++i) AddLayer(i);
    if (shape_.layers.empty()) return Status::Unsupported("no layer of this model has KV heads: there is no KV cache");
    Notes();
    return shape_;
  }

 private:
  std::string Key(const char* suffix) const { return shape_.architecture + "." + suffix; }

  Status Missing(const std::string& key) const {
    return Status::Invalid("the header has no usable key " + key + (header_.complete ? "" : ": " + header_.end_note));
  }

  // An integer key in [low, high]; `fallback` when absent, an error when there is none or the value is out of range.
  Status Bounded(const std::string& key, int64_t low, int64_t high, std::optional<int64_t> fallback, int64_t* value) {
    const std::optional<int64_t> found = header_.Integer(key);
    if (!found && !fallback) return Missing(key);
    *value = found.value_or(fallback.value_or(0));
    if (*value >= low && *value <= high) return {};
    return Status::Invalid(key + " is " + std::to_string(*value) + ", outside [" + std::to_string(low) + ", " + std::to_string(high) + "]");
  }

  // A number for all layers or an array with one for each.
  Status PerLayer(const std::string& key, const std::vector<int64_t>* fallback, std::vector<int64_t>* values) {
    const std::vector<int64_t> found = header_.Integers(key);
    const size_t blocks = static_cast<size_t>(shape_.blocks);
    const auto entry = header_.values.find(key);
    if (found.empty()) {
      if (fallback == nullptr) return Missing(key);
      *values = *fallback;
    } else if (!entry->second.is_array) {
      values->assign(blocks, found[0]);
    } else if (found.size() < blocks) {
      return Status::Invalid(key + " has " + std::to_string(found.size()) + " entries for " + std::to_string(blocks) + " layers");
    } else {
      values->assign(found.begin(), found.begin() + static_cast<ptrdiff_t>(blocks));
    }
    for (int64_t value : *values) {
      if (value < 0 || value > kMaxHeads) return Status::Invalid(key + " holds " + std::to_string(value));
    }
    return {};
  }

  Status Scalars() {
    int64_t blocks, extra, shared = 0, head_width = 0;
    Status status = Bounded(Key("block_count"), 1, kMaxLayers, std::nullopt, &blocks);
    if (!status.ok()) return status;
    shape_.blocks = static_cast<int>(blocks);
    // Blocks for predicting several tokens come last and are not part of the main context.
    if (!(status = Bounded(Key("nextn_predict_layers"), 0, blocks, 0, &extra)).ok()) return status;
    num_layers_ = static_cast<int>(blocks - (extra < blocks ? extra : 0));
    if (!(status = Bounded(Key("context_length"), 0, kMaxTokens, 0, &shape_.context)).ok()) return status;
    if (!(status = Bounded(Key("embedding_length"), 1, int64_t{1} << 24, std::nullopt, &shape_.embedding)).ok()) return status;
    if (!(status = PerLayer(Key("attention.head_count"), nullptr, &heads_q_)).ok()) return status;
    if (!(status = PerLayer(Key("attention.head_count_kv"), &heads_q_, &heads_kv_)).ok()) return status;
    if (heads_q_[0] > 0) head_width = shape_.embedding / heads_q_[0];
    std::optional<int64_t> fallback;
    if (head_width > 0) fallback = head_width;
    if (!(status = Bounded(Key("attention.key_length"), 1, kMaxWidth, fallback, &k_width_)).ok()) return status;
    if (!(status = Bounded(Key("attention.value_length"), 1, kMaxWidth, fallback, &v_width_)).ok()) return status;
    if (!(status = Bounded(Key("attention.key_length_swa"), 1, kMaxWidth, k_width_, &k_width_window_)).ok()) return status;
    if (!(status = Bounded(Key("attention.value_length_swa"), 1, kMaxWidth, v_width_, &v_width_window_)).ok()) return status;
    if (!(status = Bounded(Key("attention.kv_lora_rank"), 0, kMaxWidth, 0, &shape_.kv_lora_rank)).ok()) return status;
    shape_.mla = header_.Integer(Key("attention.key_length_mla")).value_or(0) > 0 &&
                 header_.Integer(Key("attention.value_length_mla")).value_or(0) > 0;
    // Gemma 3n and 4: the last layers use the rows of an earlier one.
    if (!(status = Bounded(Key("attention.shared_kv_layers"), 0, blocks, 0, &shared)).ok()) return status;
    owners_ = static_cast<int>(blocks);
    if (shape_.architecture == "gemma3n") owners_ = 20;
    if (shape_.architecture == "gemma4") owners_ = static_cast<int>(blocks - shared);
    recurrent_.assign(static_cast<size_t>(blocks), false);
    return {};
  }

  void RecurrentByInterval() {
    const std::vector<int64_t> listed = header_.Integers(Key("attention.recurrent_layers"));
    const int64_t interval = header_.Integer(Key("full_attention_interval")).value_or(4);
    for (int i = 0; i < shape_.blocks; ++i) {
      const size_t at = static_cast<size_t>(i);
      recurrent_[at] = listed.size() >= recurrent_.size() ? listed[at] != 0 : interval > 0 && (i + 1) % interval != 0;
    }
  }

  Status Windows() {
    windows_.assign(static_cast<size_t>(shape_.blocks), 0);
    const std::string window_key = Key("attention.sliding_window");
    const std::string pattern_key = Key("attention.sliding_window_pattern");
    const WindowRule* rule = WindowRuleOf(shape_.architecture);
    // EXAONE 4 has windows in its 32B (64 layers) only.
    if (shape_.architecture == "exaone4" && num_layers_ != 64) rule = nullptr;
    const std::optional<int64_t> stated = header_.Integer(window_key);
    if (rule == nullptr) {
      if (stated.value_or(0) > 0) shape_.notes.push_back("the file states a sliding window, which llama.cpp ignores for this architecture");
      return {};
    }
    int64_t window;
    const Status status = Bounded(window_key, 0, kMaxTokens, shape_.architecture == kWindowNeedsKey ? 0 : rule->default_window, &window);
    if (!status.ok()) return status;
    if (window == 0) return {};
    if (rule->fixed) window = rule->default_window;

    const std::vector<int64_t> pattern = header_.Integers(pattern_key);
    const auto entry = header_.values.find(pattern_key);
    const bool by_layer = entry != header_.values.end() && entry->second.is_array;
    if (by_layer && pattern.size() < static_cast<size_t>(num_layers_)) {
      return Status::Invalid(pattern_key + " has " + std::to_string(pattern.size()) + " entries for " + std::to_string(num_layers_) +
                             " layers");
    }
    const int64_t period = !by_layer && !pattern.empty() ? pattern[0] : rule->period;
    for (int i = 0; i < num_layers_; ++i) {
      const size_t at = static_cast<size_t>(i);
      const bool full = period > 0 && (rule->dense_first ? i % period == 0 : i % period == period - 1);
      if (by_layer ? pattern[at] != 0 : !full) windows_[at] = window;
    }
    return {};
  }

  void AddLayer(int i) {
    const size_t at = static_cast<size_t>(i);
    if (i >= owners_ || recurrent_[at] || heads_kv_[at] == 0) return;
    const bool windowed = windows_[at] > 0;
    CachedLayer layer;
    layer.layer = i;
    layer.heads_q = static_cast<int>(heads_q_[at]);
    layer.heads_kv = static_cast<int>(heads_kv_[at]);
    layer.k_width = static_cast<int>(windowed ? k_width_window_ : k_width_);
    layer.v_width = shape_.mla ? 0 : static_cast<int>(windowed ? v_width_window_ : v_width_);
    layer.window = static_cast<int>(std::min(windows_[at], kMaxTokens - 1));
    shape_.layers.push_back(layer);
  }

  void Notes() {
    const int cached = static_cast<int>(shape_.layers.size());
    if (shape_.mla) {
      shape_.notes.push_back("multi-head latent attention: one row of " + std::to_string(shape_.layers[0].k_width) + " values (latent " +
                             std::to_string(shape_.kv_lora_rank) + " + position) a token and layer; V is part of it and costs nothing");
    } else if (shape_.kv_lora_rank > 0) {
      shape_.notes.push_back(
          "the model has latent attention, but this file holds it expanded: full K and V rows of every head are counted");
    }
    if (owners_ < num_layers_) shape_.notes.push_back("layers " + std::to_string(owners_) + " and up share the rows of earlier ones");
    if (cached < std::min(num_layers_, owners_)) {
      shape_.notes.push_back(std::to_string(cached) + " of " + std::to_string(shape_.blocks) +
                             " layers have a cache; the state of the others has a fixed size and is not counted");
    }
    if (num_layers_ < shape_.blocks) {
      shape_.notes.push_back("the last " + std::to_string(shape_.blocks - num_layers_) +
                             " blocks predict further tokens and have a cache only in a draft context; not counted");
    }
    if (HasIndexCache(shape_.architecture)) shape_.notes.push_back("the index cache of sparse attention is not counted");
    if (shape_.architecture == "nanbeige" && header_.Integer(Key("num_loops")).value_or(1) > 1) {
      shape_.notes.push_back("the layers run several times with a cache each; only the first pass is counted");
    }
  }

  const Header& header_;
  ModelShape shape_;
  int num_layers_ = 0;  // without the blocks of multi-token prediction
  int owners_ = 0;      // layers below this number own rows
  std::vector<int64_t> heads_q_, heads_kv_, windows_;
  std::vector<bool> recurrent_;
  int64_t k_width_ = 0, v_width_ = 0, k_width_window_ = 0, v_width_window_ = 0;
};

}  // namespace

StatusOr<ModelShape> ReadShape(const Header& header) { return ShapeReader(header).Run(); }

std::vector<std::string> KeyBiasTensors(const Header& header) {
  std::vector<std::string> names;
  for (const Tensor& tensor : header.tensors) {
    if (tensor.name.ends_with(".attn_k.bias") || tensor.name.ends_with(".attn_qkv.bias")) names.push_back(tensor.name);
  }
  return names;
}

}  // namespace swivel::gguf
