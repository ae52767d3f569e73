#include "llama/f32_weights.h"

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

StatusOr<fs::path> CacheFolder() {
  if (const char* named = std::getenv("SWIVEL_CACHE"); named != nullptr && *named != '\0') return fs::path(named) / "f32";
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg != '\0') return fs::path(xdg) / "swivel" / "f32";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return fs::path(home) / ".cache" / "swivel" / "f32";
  return Status::NotFound("neither SWIVEL_CACHE, XDG_CACHE_HOME nor HOME is set: there is no folder for expanded weights");
}

// FNV-1a; only has to tell files of one name apart.
uint64_t Hash(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

struct Contents {
  bool quantized = false;
  uint64_t f32_bytes = 0;
};

StatusOr<Contents> ReadContents(const std::string& path) {
  const LlamaLogMark mark;
  ggml_context* tensors = nullptr;
  gguf_context* gguf = gguf_init_from_file(path.c_str(), {/*no_alloc=*/true, /*ctx=*/&tensors});
  if (gguf == nullptr) return Status::Io(fmt::format("cannot read '{}': {}", path, mark.Errors()));
  Contents contents;
  for (ggml_tensor* tensor = ggml_get_first_tensor(tensors); tensor != nullptr; tensor = ggml_get_next_tensor(tensors, tensor)) {
    // F16 and BF16 weights make llama.cpp round activations as well.
    contents.quantized |= ggml_n_dims(tensor) > 1 && tensor->type != GGML_TYPE_F32;
    contents.f32_bytes += static_cast<uint64_t>(ggml_nelements(tensor)) * sizeof(float);
  }
  gguf_free(gguf);
  ggml_free(tensors);
  return contents;
}

}  // namespace

StatusOr<std::string> ExpandToF32(const std::string& model_path, int threads) {
  std::error_code error;
  const uint64_t size = fs::file_size(model_path, error);
  if (error) return Status::NotFound(fmt::format("model '{}': {}", model_path, error.message()));
  StatusOr<Contents> contents = ReadContents(model_path);
  if (!contents.ok()) return contents.status();
  if (!contents->quantized) return model_path;

  StatusOr<fs::path> folder = CacheFolder();
  if (!folder.ok()) return folder.status();
  fs::create_directories(*folder, error);
  if (error) return Status::Io(fmt::format("cannot create the folder {}: {}", folder->string(), error.message()));
  const fs::path source(model_path);
  const auto changed = fs::last_write_time(source, error).time_since_epoch().count();
  const std::string key = fmt::format("{}\n{}\n{}", source.filename().string(), size, changed);
  const fs::path target = *folder / fmt::format("{}-{:016x}-F32.gguf", source.stem().string(), Hash(key));
  if (fs::is_regular_file(target, error)) return target.string();

  const fs::space_info space = fs::space(*folder, error);
  if (!error && space.available < contents->f32_bytes + (64u << 20)) {
    return Status::Io(fmt::format("F32 weights of '{}' need {} MiB in {}, which has {} MiB free; SWIVEL_CACHE names another folder",
                                  model_path, contents->f32_bytes >> 20, folder->string(), space.available >> 20));
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
  params.ftype = LLAMA_FTYPE_ALL_F32;
  params.allow_requantize = true;
  const LlamaLogMark mark;
  if (llama_model_quantize(model_path.c_str(), partial.c_str(), &params) != 0) {
    fs::remove(partial, error);
    return Status::Io(fmt::format("cannot expand '{}' to F32: {}", model_path, mark.Errors()));
  }
  fs::rename(partial, target, error);
  if (error) {
    fs::remove(partial, error);
    return Status::Io(fmt::format("cannot rename {} to {}", partial.string(), target.string()));
  }
  return target.string();
}

}  // namespace swivel
