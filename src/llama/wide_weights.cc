#include "llama/wide_weights.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "gguf.h"
#include "llama.h"
#include "llama/log.h"

namespace swivel {
namespace {

namespace fs = std::filesystem;

StatusOr<fs::path> CacheFolder(const std::string& weights) {
  if (const char* named = std::getenv("SWIVEL_CACHE"); named != nullptr && *named != '\0') return fs::path(named) / weights;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg != '\0') return fs::path(xdg) / "swivel" / weights;
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return fs::path(home) / ".cache" / "swivel" / weights;
  return Status::NotFound("neither SWIVEL_CACHE, XDG_CACHE_HOME nor HOME is set: there is no folder for expanded weights");
}

// FNV-1a; only has to tell files of one name apart.
uint64_t Hash(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

struct Contents {
  bool narrow = false;  // holds what is to be expanded
  uint64_t values = 0;
};

StatusOr<Contents> ReadContents(const std::string& path, bool to_f32) {
  const LlamaLogMark mark;
  ggml_context* tensors = nullptr;
  gguf_context* gguf = gguf_init_from_file(path.c_str(), {/*no_alloc=*/true, /*ctx=*/&tensors});
  if (gguf == nullptr) return Status::Io(fmt::format("cannot read '{}': {}", path, mark.Errors()));
  Contents contents;
  for (ggml_tensor* tensor = ggml_get_first_tensor(tensors); tensor != nullptr; tensor = ggml_get_next_tensor(tensors, tensor)) {
    // F16 and BF16 weights make llama.cpp round activations as well.
    contents.narrow |= ggml_n_dims(tensor) > 1 && (to_f32 ? tensor->type != GGML_TYPE_F32 : ggml_is_quantized(tensor->type));
    contents.values += static_cast<uint64_t>(ggml_nelements(tensor));
  }
  gguf_free(gguf);
  ggml_free(tensors);
  return contents;
}

}  // namespace

StatusOr<std::string> WidenWeights(const std::string& model_path, const std::string& weights, int threads) {
  if (weights == "as-is") return model_path;
  const bool to_f32 = weights == "f32";
  const std::string type = to_f32 ? "F32" : "F16";
  std::error_code error;
  const uint64_t size = fs::file_size(model_path, error);
  if (error) return Status::NotFound(fmt::format("model '{}': {}", model_path, error.message()));
  StatusOr<Contents> contents = ReadContents(model_path, to_f32);
  if (!contents.ok()) return contents.status();
  if (!contents->narrow) return model_path;

  StatusOr<fs::path> folder = CacheFolder(weights);
  if (!folder.ok()) return folder.status();
  fs::create_directories(*folder, error);
  if (error) return Status::Io(fmt::format("cannot create the folder {}: {}", folder->string(), error.message()));
  const fs::path source(model_path);
  const auto changed = fs::last_write_time(source, error).time_since_epoch().count();
  const std::string key = fmt::format("{}\n{}\n{}", source.filename().string(), size, changed);
  const fs::path target = *folder / fmt::format("{}-{:016x}-{}.gguf", source.stem().string(), Hash(key), type);
  if (fs::is_regular_file(target, error)) return target.string();

  const fs::space_info space = fs::space(*folder, error);
  const uint64_t bytes = contents->values * (to_f32 ? 4 : 2);
  if (!error && space.available < bytes + (64u << 20)) {
    return Status::Io(fmt::format("{} weights of '{}' need {} MiB in {}, which has {} MiB free; SWIVEL_CACHE names another folder", type,
                                  model_path, bytes >> 20, folder->string(), space.available >> 20));
  }
  // What runs that were killed have left.
  for (const fs::directory_entry& entry : fs::directory_iterator(*folder, error)) {
    const std::string name = entry.path().filename().string();
    const size_t at = name.rfind(".tmp.");
    if (at != std::string::npos && !fs::exists("/proc/" + name.substr(at + 5))) fs::remove(entry.path(), error);
  }
  const fs::path partial = target.string() + fmt::format(".tmp.{}", getpid());
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.nthread = threads;
  params.ftype = to_f32 ? LLAMA_FTYPE_ALL_F32 : LLAMA_FTYPE_MOSTLY_F16;
  params.allow_requantize = true;
  const LlamaLogMark mark;
  if (llama_model_quantize(model_path.c_str(), partial.c_str(), &params) != 0) {
    fs::remove(partial, error);
    return Status::Io(fmt::format("cannot expand '{}' to {}: {}", model_path, type, mark.Errors()));
  }
  fs::rename(partial, target, error);
  if (error) {
    fs::remove(partial, error);
    return Status::Io(fmt::format("cannot rename {} to {}", partial.string(), target.string()));
  }
  return target.string();
}

}  // namespace swivel
