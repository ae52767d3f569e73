#include "cli/exec_plan.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "cache/spec.h"
#include "cli/lists.h"
#include "codec/codec.h"
#include "eval/command_line.h"

namespace swivel::cli {
namespace {

// More than any model has (Llama 3.1 405B: 126); llama.cpp reads it as "all".
constexpr const char* kAllLayers = "999";

const std::vector<std::string> kKeyType = {"-ctk", "--cache-type-k"};
const std::vector<std::string> kValueType = {"-ctv", "--cache-type-v"};
const std::vector<std::string> kSpec = {"--kv"};
const std::vector<std::string> kFlashAttention = {"-fa", "--flash-attn"};
const std::vector<std::string> kLayers = {"-ngl", "--gpu-layers", "--n-gpu-layers"};
const std::vector<std::string> kDevice = {"-dev", "--device"};
const std::vector<std::string> kNoOffload = {"-nkvo", "--no-kv-offload"};
const std::vector<std::string> kRemote = {"--rpc", "-rpc"};
const std::vector<std::string> kDraftTypes = {"-ctkd", "--cache-type-k-draft", "--spec-draft-type-k",
                                              "-ctvd", "--cache-type-v-draft", "--spec-draft-type-v"};

bool IsStock(const std::string& name) {
  const std::vector<std::string>& types = StockCacheTypes();
  return std::find(types.begin(), types.end(), name) != types.end();
}

std::string Join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// Is `name` a codec of ours? If not: why, and what there is.
Status CheckType(const std::string& option, const std::string& name) {
  if (FindCodec(name).ok()) return {};
  if (IsStock(name)) {
    return Status::Invalid(option + " " + name + ": a type of llama.cpp's own cache that Swivel does not have. Swivel's are " +
                           CodecNames() + "; to use llama.cpp's, start the program without `swivel exec`");
  }
  std::vector<std::string> all = StockCacheTypes();
  for (const Codec* codec : AllCodecs()) all.insert(all.begin(), codec->name);
  const std::string nearest = NearestName(name, all);
  return Status::Invalid(option + " " + name + ": no such cache type" + (nearest.empty() ? "" : "; did you mean " + nearest + "?") +
                         " Swivel has " + CodecNames() + "; llama.cpp alone has " + Join(StockCacheTypes()));
}

bool SameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  return a == b || std::filesystem::equivalent(a, b, error);
}

class Planner {
 public:
  explicit Planner(const ExecRequest& request) : request_(request), args_(request.command) {}

  StatusOr<ExecPlan> Run() {
    const ProgramPlace place = Locate(args_);
    plan_.kind = place.kind;
    begin_ = place.first_option;
    if (Status chain = ChainOther(); !chain.ok()) return chain;
    // What follows a program we do not know is its own business; Swivel's --kv stands in front of it.
    Status status = plan_.kind == ProgramKind::kOther ? Status() : TakeTypes();
    if (status.ok()) status = ChooseSpecs();
    if (status.ok() && plan_.kind == ProgramKind::kCommon) status = CommonOptions();
    if (status.ok() && plan_.kind == ProgramKind::kBench) status = BenchOptions();
    if (!status.ok()) return status;
    if (place.program > 0 && request_.command[0].ends_with("sudo")) {
      plan_.notes.push_back("sudo drops the environment: use `sudo swivel exec …` instead");
    }
    for (const std::string& spec : specs_) plan_.runs.push_back(MakeRun(spec));
    return std::move(plan_);
  }

 private:
  const std::string* Environment(const std::string& name) const {
    const auto found = request_.environment.find(name);
    return found == request_.environment.end() ? nullptr : &found->second;
  }

  // A backend that has the one path llama.cpp reads is loaded by the plugin instead.
  Status ChainOther() {
    const std::string* path = Environment("GGML_BACKEND_PATH");
    if (path == nullptr || path->empty() || SameFile(*path, request_.plugin)) return {};
    const std::string* next = Environment("SWIVEL_NEXT");
    if (next != nullptr && !next->empty() && !SameFile(*next, *path)) {
      return Status::Invalid("GGML_BACKEND_PATH is set to " + *path + " and SWIVEL_NEXT to " + *next +
                             "; Swivel loads one other backend, so unset one of them (env -u SWIVEL_NEXT swivel exec …)");
    }
    next_ = *path;
    plan_.notes.push_back("GGML_BACKEND_PATH was " + *path + ": Swivel loads that backend as SWIVEL_NEXT");
    return {};
  }

  // Moves -ctk, -ctv and --kv out of the arguments.
  Status TakeTypes() {
    std::vector<std::string> kv;
    if (!TakeOption(kKeyType, begin_, &args_, &k_)) return Status::Invalid("-ctk needs a type: " + CodecNames());
    if (!TakeOption(kValueType, begin_, &args_, &v_)) return Status::Invalid("-ctv needs a type: " + CodecNames());
    if (!TakeOption(kSpec, begin_, &args_, &kv)) return Status::Invalid("--kv needs a specification. " + SpecHelp());
    for (const std::string& text : kv) {
      if (!kv_.empty() || !request_.kv.empty()) return Status::Invalid("--kv is given twice");
      kv_ = text;
      if (kv_.empty()) return Status::Invalid("--kv needs a specification. " + SpecHelp());
    }
    if (plan_.kind == ProgramKind::kCommon) {
      TypeFromEnvironment("LLAMA_ARG_CACHE_TYPE_K", &k_);
      TypeFromEnvironment("LLAMA_ARG_CACHE_TYPE_V", &v_);
      for (const std::string& type : ValuesOf(kDraftTypes, begin_, args_)) {
        if (!IsStock(type)) {
          return Status::Invalid("-ctkd/-ctvd " + type + ": a draft model takes llama.cpp's own types only: " + Join(StockCacheTypes()));
        }
      }
    }
    return {};
  }

  // llama.cpp reads these variables too and would stop at a name of ours.
  void TypeFromEnvironment(const std::string& name, std::vector<std::string>* types) {
    const std::string* value = Environment(name);
    if (value == nullptr) return;
    if (types->empty()) types->push_back(*value);
    unset_.push_back(name);
  }

  Status ChooseSpecs() {
    const std::string& kv = kv_.empty() ? request_.kv : kv_;
    const bool typed = !k_.empty() || !v_.empty();
    if (!kv.empty() && typed) return Status::Invalid("--kv and -ctk/-ctv say the same thing; give one of them");
    const std::string* inherited = Environment("SWIVEL_KV");
    if (typed) {
      if (inherited != nullptr) plan_.notes.push_back("-ctk/-ctv replace SWIVEL_KV=" + *inherited);
      return SpecsFromTypes();
    }
    if (!kv.empty() && inherited != nullptr && kv != *inherited) plan_.notes.push_back("--kv replaces SWIVEL_KV=" + *inherited);
    const std::string text = !kv.empty() ? kv : inherited != nullptr && !inherited->empty() ? *inherited : kDefaultSpec;
    const StatusOr<CacheSpec> spec = ParseSpec(text);
    if (!spec.ok()) return Status::Invalid((kv.empty() && inherited ? "SWIVEL_KV: " : "--kv: ") + spec.status().message());
    specs_.push_back(spec.value().ToString());
    return {};
  }

  Status SpecsFromTypes() {
    std::vector<std::string> keys, values;
    Status status = TypeList("-ctk", k_, &keys);
    if (status.ok()) status = TypeList("-ctv", v_, &values);
    if (!status.ok()) return status;
    bool stock_only = true;
    for (const std::string& k : keys) {
      for (const std::string& v : values) {
        const StatusOr<CacheSpec> spec = ParseSpec("k=" + k + ",v=" + v);
        if (!spec.ok()) return spec.status();
        specs_.push_back(spec.value().ToString());
        stock_only = stock_only && IsStock(k) && IsStock(v);
      }
    }
    if (stock_only) plan_.notes.push_back("llama.cpp has these types too; here Swivel's own codecs of the same names are used");
    if (specs_.size() > 1) {
      plan_.notes.push_back("llama-bench runs " + std::to_string(specs_.size()) +
                            " times, once for each pair of types; its tables show llama.cpp's view of the cache (f16), not Swivel's");
    }
    return {};
  }

  // Every type of an option, checked. An option that is not given means f16, as in llama.cpp.
  Status TypeList(const std::string& option, const std::vector<std::string>& given, std::vector<std::string>* types) {
    for (const std::string& text : given) {
      const std::vector<std::string> names = SplitList(text);
      if (names.size() > 1 && plan_.kind != ProgramKind::kBench) {
        return Status::Invalid(option + " " + text + ": one type, please; lists are for llama-bench");
      }
      for (const std::string& name : names) {
        const Status status = CheckType(option, name);
        if (!status.ok()) return status;
        if (plan_.kind != ProgramKind::kBench) types->clear();  // the last one counts
        types->push_back(name);
      }
    }
    if (types->empty()) types->push_back("f16");
    return {};
  }

  // A value given by option, else by environment variable; nullptr when neither.
  const std::string* Given(const std::vector<std::string>& names, const std::string& variable) {
    const std::vector<std::string> values = ValuesOf(names, begin_, args_);
    if (values.empty()) return Environment(variable);
    given_ = values.back();
    return &given_;
  }

  Status CommonOptions() {
    if (HasFlag(kNoOffload, begin_, args_) || Environment("LLAMA_ARG_NO_KV_OFFLOAD") != nullptr) {
      return Status::Invalid("-nkvo keeps the cache away from Swivel; leave it out (the cache is in main memory anyway)");
    }
    if (const std::string* offload = Environment("LLAMA_ARG_KV_OFFLOAD"); offload != nullptr && IsOff(*offload)) {
      return Status::Invalid("LLAMA_ARG_KV_OFFLOAD=" + *offload + " keeps the cache away from Swivel; unset it");
    }
    const std::string* device = Given(kDevice, "LLAMA_ARG_DEVICE");
    if (device == nullptr) {
      if (HasFlag(kRemote, begin_, args_) || Environment("LLAMA_ARG_RPC") != nullptr) {
        return Status::Invalid(
            "--rpc: the cache of a remote layer lies with its server. Start each server as `swivel exec rpc-server …` and this "
            "program without `swivel exec`");
      }
      added_.insert(added_.end(), {"--device", "SWIVEL"});
    } else {
      const std::vector<std::string> devices = SplitList(*device);
      if (std::find(devices.begin(), devices.end(), "SWIVEL") == devices.end()) {
        return Status::Invalid("--device " + *device + " leaves the cache to llama.cpp; name SWIVEL, or leave the option out");
      }
      if (devices.size() > 1) plan_.notes.push_back("--device " + *device + ": layers on other devices keep llama.cpp's own cache");
    }
    if (const std::string* attention = Given(kFlashAttention, "LLAMA_ARG_FLASH_ATTN")) {
      if (IsOff(*attention)) {
        return Status::Invalid("-fa " + *attention + ": Swivel computes flash attention on the packed cache; leave the option out");
      }
    } else {
      added_.insert(added_.end(), {"-fa", "on"});
    }
    if (const std::string* layers = Given(kLayers, "LLAMA_ARG_N_GPU_LAYERS")) {
      if (*layers == "0") return Status::Invalid("-ngl 0 gives no layer to Swivel; leave the option out (no weights leave main memory)");
      // Up to two digits, 99 excepted: what people write when they mean a part of the model.
      const bool part = layers->size() <= 2 && *layers != "99" && layers->find_first_not_of("0123456789") == std::string::npos;
      if (part) plan_.notes.push_back("-ngl " + *layers + ": only the caches of that many layers are compressed");
    } else {
      added_.insert(added_.end(), {"-ngl", kAllLayers});
    }
    return {};
  }

  Status BenchOptions() {
    const auto any = [this](const std::vector<std::string>& names, auto test) {
      for (const std::string& list : ValuesOf(names, begin_, args_)) {
        for (const std::string& value : SplitList(list)) {
          if (test(value)) return true;
        }
      }
      return false;
    };
    if (any(kNoOffload, [](const std::string& value) { return !IsOff(value); })) {
      return Status::Invalid("-nkvo 1 keeps the cache away from Swivel; measure that without `swivel exec`");
    }
    if (any(kFlashAttention, IsOff)) {
      return Status::Invalid("-fa 0: Swivel computes flash attention on the packed cache; measure that without `swivel exec`");
    }
    if (any(kLayers, [](const std::string& value) { return value == "0"; })) {
      return Status::Invalid("-ngl 0 gives no layer to Swivel; measure that without `swivel exec`");
    }
    const std::vector<std::string> devices = ValuesOf(kDevice, begin_, args_);
    for (const std::string& device : devices) {
      if (device.find("SWIVEL") == std::string::npos)
        return Status::Invalid("-dev " + device + " leaves the cache to llama.cpp; name SWIVEL");
    }
    // Naming the device makes a plugin that did not load an error instead of an uncompressed run. `-fa 1` is what old and new accept.
    if (devices.empty()) added_.insert(added_.end(), {"-dev", "SWIVEL"});
    if (!HasFlag(kFlashAttention, begin_, args_)) added_.insert(added_.end(), {"-fa", "1"});
    if (!HasFlag(kLayers, begin_, args_)) added_.insert(added_.end(), {"-ngl", kAllLayers});
    return {};
  }

  ExecRun MakeRun(const std::string& spec) const {
    ExecRun run;
    run.spec = spec;
    run.argv = args_;
    // In front of the user's own options: llama.cpp lets the later one win.
    run.argv.insert(run.argv.begin() + static_cast<ptrdiff_t>(std::min(begin_, args_.size())), added_.begin(), added_.end());
    run.set = {{"GGML_BACKEND_PATH", request_.plugin}, {"SWIVEL_KV", spec}};
    if (!next_.empty()) run.set.emplace_back("SWIVEL_NEXT", next_);
    if (plan_.kind == ProgramKind::kOther) {
      // For scripts that call ggml_backend_load themselves, and for llama-server started by one.
      run.set.emplace_back("SWIVEL_PLUGIN", request_.plugin);
      if (Environment("LLAMA_ARG_DEVICE") == nullptr) run.set.emplace_back("LLAMA_ARG_DEVICE", "SWIVEL");
    }
    run.unset = unset_;
    return run;
  }

  const ExecRequest& request_;
  ExecPlan plan_;
  std::vector<std::string> args_;   // PROGRAM ARGS… without what was taken out
  std::vector<std::string> added_;  // options to put in
  std::vector<std::string> unset_;
  std::vector<std::string> k_, v_;  // as given
  std::string next_;                // the backend that had GGML_BACKEND_PATH
  std::string kv_;                  // --kv among the program's arguments
  std::string given_;
  std::vector<std::string> specs_;
  size_t begin_ = 1;
};

}  // namespace

std::string ExecRun::ToShell() const {
  std::string line = unset.empty() ? "" : "env";
  for (const std::string& name : unset) line += " -u " + name;
  for (const auto& [name, value] : set) line += (line.empty() ? "" : " ") + name + "=" + ShellQuote(value);
  for (const std::string& word : argv) line += " " + ShellQuote(word);
  return line;
}

StatusOr<ExecPlan> PlanExec(const ExecRequest& request) {
  if (request.command.empty())
    return Status::Invalid("which program? For example: swivel exec llama-server -m model.gguf -ctk turbo4 -ctv turbo4");
  if (request.command[0].starts_with("-")) {
    return Status::Invalid(request.command[0] +
                           ": not an option of `swivel exec` (--kv, --dry-run); options of the program follow its name");
  }
  return Planner(request).Run();
}

std::string NearestName(const std::string& word, const std::vector<std::string>& names) {
  std::string nearest;
  size_t fewest = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& name : names) {
    // Levenshtein, one row at a time.
    std::vector<size_t> row(name.size() + 1);
    for (size_t j = 0; j <= name.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= word.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= name.size(); ++j) {
        const size_t above = row[j];
        const bool same = std::tolower(static_cast<unsigned char>(word[i - 1])) == name[j - 1];
        row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (same ? 0 : 1)});
        diagonal = above;
      }
    }
    if (row.back() < fewest) {
      fewest = row.back();
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace swivel::cli
