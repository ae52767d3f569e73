#include "llama/model.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <system_error>

#include "ggml-backend.h"
#include "llama.h"
#include "llama/log.h"
#include "llama/plugin.h"

namespace swivel {
namespace {

// llama.cpp answers all of these with one "failed to load model"; say which it is.
Status CheckModelFile(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return Status::NotFound(fmt::format("model '{}' does not exist", path));
  if (fs::is_directory(status)) return Status::Invalid(fmt::format("model '{}' is a folder, not a GGUF file", path));
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return Status::Io(fmt::format("model '{}' cannot be read: {}", path, std::strerror(errno)));
  char magic[4] = {};
  const size_t num_read = std::fread(magic, 1, sizeof magic, file);
  std::fclose(file);
  if (num_read != sizeof magic || std::memcmp(magic, "GGUF", sizeof magic) != 0) {
    return Status::Invalid(fmt::format("model '{}' is not a GGUF file", path));
  }
  return {};
}

}  // namespace

void InitLlama() {
  static std::once_flag once;
  std::call_once(once, [] {
    // A llama.cpp built with loadable backends has no CPU backend before this.
    if (ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) == nullptr) ggml_backend_load_all();
    llama_backend_init();
  });
}

StatusOr<std::unique_ptr<Model>> Model::Load(const std::string& path, Devices devices) {
  if (Status status = CheckModelFile(path); !status.ok()) return status;
  InitLlama();
  // A list that holds only its end means: no device but the CPU.
  ggml_backend_dev_t list[2] = {nullptr, nullptr};
  llama_model_params params = llama_model_default_params();
  params.devices = list;
  params.n_gpu_layers = 0;
  if (devices == Devices::kSwivel) {
    StatusOr<Plugin*> plugin = Plugin::Get();
    if (!plugin.ok()) return plugin.status();
    list[0] = (*plugin)->device();
    params.n_gpu_layers = -1;  // all: the cache of a layer lives where the layer is said to be
  }
  const LlamaLogMark mark;
  std::unique_ptr<Model> model(new Model);
  model->devices_ = devices;
  model->model_ = llama_model_load_from_file(path.c_str(), params);
  if (model->model_ == nullptr) return Status::Io(fmt::format("cannot load model '{}': {}", path, mark.Errors()));
  if (!llama_model_has_decoder(model->model_)) {
    return Status::Unsupported(fmt::format("model '{}' has no decoder: it keeps no KV cache", path));
  }
  if (llama_model_is_recurrent(model->model_)) {
    return Status::Unsupported(
        fmt::format("model '{}' ({}) is recurrent: it has no attention and keeps no KV cache", path, model->description()));
  }
  model->vocab_size_ = llama_vocab_n_tokens(llama_model_get_vocab(model->model_));
  if (model->vocab_size_ <= 0) return Status::Unsupported(fmt::format("model '{}' has no vocabulary", path));
  return model;
}

Model::~Model() {
  if (model_ != nullptr) llama_model_free(model_);
}

int Model::train_context() const { return llama_model_n_ctx_train(model_); }
int Model::window() const { return llama_model_n_swa(model_); }
bool Model::adds_bos() const { return llama_vocab_get_add_bos(llama_model_get_vocab(model_)); }
Token Model::bos() const { return llama_vocab_bos(llama_model_get_vocab(model_)); }
uint64_t Model::num_bytes() const { return llama_model_size(model_); }

std::string Model::description() const {
  char text[256];
  const int length = llama_model_desc(model_, text, sizeof text);
  return length > 0 ? std::string(text) : "unknown";
}

std::vector<Token> Model::Tokenize(std::string_view text, bool add_special, bool parse_special) const {
  const llama_vocab* vocab = llama_model_get_vocab(model_);
  const int length = static_cast<int>(text.size());
  std::vector<Token> tokens(text.size() / 2 + 16);
  int count = llama_tokenize(vocab, text.data(), length, tokens.data(), static_cast<int>(tokens.size()), add_special, parse_special);
  if (count < 0) {
    tokens.resize(static_cast<size_t>(-count));
    count = llama_tokenize(vocab, text.data(), length, tokens.data(), static_cast<int>(tokens.size()), add_special, parse_special);
  }
  tokens.resize(static_cast<size_t>(std::max(count, 0)));
  return tokens;
}

std::string Model::Piece(Token token) const {
  const llama_vocab* vocab = llama_model_get_vocab(model_);
  if (llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_NONE) return "<" + std::to_string(token) + ">";
  std::string piece(32, '\0');
  int length = llama_token_to_piece(vocab, token, piece.data(), static_cast<int>(piece.size()), 0, /*special=*/false);
  if (length < 0) {
    piece.resize(static_cast<size_t>(-length));
    length = llama_token_to_piece(vocab, token, piece.data(), static_cast<int>(piece.size()), 0, /*special=*/false);
  }
  piece.resize(static_cast<size_t>(std::max(length, 0)));
  return piece;
}

bool Model::EndsGeneration(Token token) const {
  const llama_vocab* vocab = llama_model_get_vocab(model_);
  return llama_vocab_type(vocab) != LLAMA_VOCAB_TYPE_NONE && llama_vocab_is_eog(vocab, token);
}

StatusOr<std::string> Model::ChatPrompt(const std::string& user_text) const {
  const char* chat_template = llama_model_chat_template(model_, nullptr);
  if (chat_template == nullptr) return Status::Unsupported("this model file has no chat template");
  const llama_chat_message message = {"user", user_text.c_str()};
  std::string prompt(2 * user_text.size() + 1024, '\0');
  int length = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    length = llama_chat_apply_template(chat_template, &message, 1, /*add_ass=*/true, prompt.data(), static_cast<int>(prompt.size()));
    if (length <= static_cast<int>(prompt.size())) break;
    prompt.resize(static_cast<size_t>(length));
  }
  if (length < 0) return Status::Unsupported("llama.cpp does not know the chat template of this model file");
  prompt.resize(static_cast<size_t>(length));
  return prompt;
}

StatusOr<Model*> ModelPair::Get(Model::Devices devices) {
  std::unique_ptr<Model>& slot = models_[static_cast<int>(devices)];
  if (slot == nullptr) {
    StatusOr<std::unique_ptr<Model>> model = Model::Load(path_, devices);
    if (!model.ok()) return model.status();
    slot = std::move(*model);
  }
  return slot.get();
}

std::string LlamaBuild() { return fmt::format("{} (ggml {})", llama_version(), ggml_version()); }

}  // namespace swivel
