#include "gguf/architectures.h"

#include <algorithm>
#include <span>

namespace swivel::gguf {
namespace {

constexpr std::string_view kNoCache[] = {
    "bert",        "jina-bert-v2",    "jina-bert-v3", "nomic-bert", "nomic-bert-moe", "neo-bert", "eurobert", "wavtokenizer-dec",
    "modern-bert", "gemma-embedding", "dream",        "llada",      "llada-moe",      "rnd1",     "clef",     "clip"};
constexpr std::string_view kRecurrent[] = {"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"};
constexpr std::string_view kInterval[] = {"qwen3next", "qwen35", "qwen35moe", "qwen4exp", "minimax-01"};
// deepseek4 and its drafts keep compressed blocks beside a window; the others are drafts that borrow another model's cache.
constexpr std::string_view kUndescribed[] = {"deepseek4", "dots3note", "dflash", "eagle3", "gemma4-assistant"};
constexpr std::string_view kIndexed[] = {"deepseek32", "glm-dsa", "glm5-next", "hy_v4", "minimax-m3", "qwen4exp"};

constexpr WindowRule kWindows[] = {
    {"afmoe", 0, false, 4, false},        {"cohere2", 0, false, 4, false},     {"cohere2moe", 0, false, 4, true},
    {"exaone-moe", 128, false, 4, false}, {"exaone4", 4096, false, 4, false},  {"gemma2", 4096, false, 2, false},
    {"gemma3", 0, false, 6, false},       {"gemma3n", 0, false, 5, false},     {"gemma4", 0, false, 6, false},
    {"gpt-oss", 0, false, 2, false},      {"granite_swa", 0, false, 4, false}, {"laguna", 0, false, 4, true},
    {"lfm2", 0, false, 0, false},         {"llama4", 8192, true, 4, false},    {"maple", 0, false, 4, false},
    {"mellum", 0, false, 4, false},       {"mimo2", 0, false, 4, false},       {"muse-glimmer", 0, false, 4, false},
    {"olmo2", 0, false, 4, false},        {"plamo3", 0, false, 8, false},      {"smallthinker", 4096, true, 4, true},
    {"spark2_5", 0, false, 4, false},     {"step35", 0, false, 4, false},
};

bool Has(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

CacheKind KindOf(std::string_view architecture) {
  if (Has(kNoCache, architecture)) return CacheKind::kNone;
  if (Has(kRecurrent, architecture)) return CacheKind::kRecurrent;
  if (Has(kInterval, architecture)) return CacheKind::kInterval;
  if (Has(kUndescribed, architecture)) return CacheKind::kUndescribed;
  return CacheKind::kPlain;
}

bool HasIndexCache(std::string_view architecture) { return Has(kIndexed, architecture); }

const WindowRule* WindowRuleOf(std::string_view architecture) {
  for (const WindowRule& rule : kWindows) {
    if (architecture == rule.architecture) return &rule;
  }
  return nullptr;
}

}  // namespace swivel::gguf
