// Tune: from arguments to a file.
#include "cli/tune_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/cpu.h"
#include "base/hash.h"
#include "base/version.h"
#include "cli/size_cache.h"
#include "eval/command_line.h"
#include "eval/lock_step.h"
#include "eval/output_file.h"
#include "eval/progress.h"
#include "eval/quality.h"
#include "eval/store.h"
#include "gguf/fingerprint.h"
#include "gguf/header.h"
#include "gguf/shape.h"
#include "llama/cache_choice.h"
#include "llama/context.h"
#include "llama/wide_weights.h"
#include "llama/layout.h"
#include "llama/model.h"
#include "llama/plugin.h"
#include "tune/tune_file.h"

namespace swivel::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr size_t kMostTextBytes = size_t{16} << 20;
constexpr int kMicroBatch = 128;     // as in eval: a whole group of a packed cache
constexpr size_t kMostContexts = 6;  // that live together, the base among them
constexpr const char* kPlan = "plan";

void Note(const std::string& text) { fmt::print(stderr, "swivel tune: {}\n", text); }

// A path as the file at `output` has to name it.
std::string RelativeTo(const std::string& output, const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::absolute(output, error).parent_path();
  const fs::path relative = fs::absolute(path, error).lexically_normal().lexically_proximate(folder.lexically_normal());
  return relative.empty() ? path : relative.string();
}

class Tuner {
 public:
  Tuner(const TuneArguments& arguments, TuneReport* report) : arguments_(arguments), report_(report) {}

  Status Run() {
    if (Status status = Check(); !status.ok()) return status;
    if (Status status = ReadModel(); !status.ok()) return status;
    if (Status status = Load(); !status.ok()) return status;
    if (Status status = OpenState(); !status.ok()) return status;
    Status status = Search();
    progress_.Clear();
    if (!status.ok()) return status;
    if (!report_->outcome.keeps_limit) {
      return Status::Invalid(fmt::format("--kld {}: {}: {} with a KLD of {:.4g}; no file was written", *arguments_.kld, report_->outcome.reason,
                                         report_->outcome.spec, report_->outcome.kld ? report_->outcome.kld->mean : std::nan("")));
    }
    if (status = WriteFile(arguments_.output, FileText()); !status.ok()) return status;
    if (arguments_.state.empty()) {
      store_.reset();
      std::error_code ignored;
      fs::remove(state_path_, ignored);
    }
    return {};
  }

 private:
  Status Check() {
    const int limits = (arguments_.bits ? 1 : 0) + (arguments_.bytes.empty() ? 0 : 1) + (arguments_.kld ? 1 : 0);
    if (limits != 1) return Status::Invalid("which limit? exactly one of --bits X, --bytes N and --kld X");
    TuneLimit& limit = report_->problem.limit;
    limit.bits = arguments_.bits;
    limit.kld = arguments_.kld;
    if (limit.bits) report_->limit = fmt::format("{} bits a packed value", *limit.bits);
    if (limit.kld) report_->limit = fmt::format("a KLD of {}", *limit.kld);
    report_->context = arguments_.chunk_tokens;
    if (!arguments_.context.empty()) {
      StatusOr<uint64_t> context = ParseBytes(arguments_.context);
      if (!context.ok() || *context < 1 || *context > static_cast<uint64_t>(kLongestContext)) {
        return Status::Invalid(fmt::format("--ctx-size {}: a number of tokens from 1 to {}, such as 32768 or 128k", arguments_.context, kLongestContext));
      }
      report_->context = static_cast<int64_t>(*context);
    }
    if (!arguments_.bytes.empty()) {
      StatusOr<uint64_t> bytes = ParseBytes(arguments_.bytes);
      if (!bytes.ok()) return Status::Invalid("--bytes: " + bytes.status().message());
      limit.bytes = static_cast<int64_t>(*bytes);
      report_->limit = fmt::format("{} bytes for {} tokens", *limit.bytes, report_->context);
    }
    if (!arguments_.output.ends_with(".toml") || arguments_.output == ".toml") {
      return Status::Invalid(fmt::format("-o {}: the name of a cache spec in a file ends in .toml", arguments_.output));
    }
    if (Status status = CheckWritable(arguments_.output); !status.ok()) return status;
    if (arguments_.calibration.find(',') != std::string::npos) return Status::Invalid("--calibration: the path may hold no comma");
    if (StatusOr<CacheSpec> spec = ParseSpec("balanced,calibration=" + arguments_.calibration); !spec.ok()) return spec.status();
    report_->problem.calibration = arguments_.calibration;
    if (arguments_.calibration != "self") {
      StatusOr<std::string> bytes = ReadFile(arguments_.calibration);
      if (!bytes.ok()) return Status(bytes.status().code(), "--calibration: " + bytes.status().message());
      calibration_hash_ = fmt::format("{:016x}", Hash64(*bytes));
    }
    if (StatusOr<Target> target = ChooseTarget(); !target.ok()) return target.status();
    StatusOr<std::string> text = ReadFile(arguments_.text);
    if (!text.ok()) return Status(text.status().code(), "text " + text.status().message());
    text_ = std::move(*text);
    if (text_.size() > kMostTextBytes) {
      Note(fmt::format("of '{}' the first {} MiB are used", arguments_.text, kMostTextBytes >> 20));
      text_.resize(kMostTextBytes);
    }
    report_->model = arguments_.model;
    report_->text = arguments_.text;
    report_->weights = arguments_.weights;
    report_->output = arguments_.output;
    report_->chunk_tokens = arguments_.chunk_tokens;
    report_->command = OwnCommandLine();
    StatusOr<std::string> plugin = FindPlugin();
    return plugin.ok() ? Status() : plugin.status();
  }

  Status ReadModel() {
    const StatusOr<gguf::Header> header = gguf::ReadModelHeader(arguments_.model);
    if (!header.ok()) return header.status();
    const StatusOr<gguf::ModelShape> shape = gguf::ReadShape(header.value());
    if (!shape.ok()) return Status(shape.status().code(), arguments_.model + ": " + shape.status().message());
    if (shape.value().mla) return Status::Unsupported(arguments_.model + ": models with latent attention (MLA) have no compressed cache to tune");
    CacheLayout layout;
    layout.micro_batch = kMicroBatch;
    for (const gguf::CachedLayer& layer : shape.value().layers) {
      report_->problem.layers.push_back({layer.heads_kv, layer.k_width, layer.v_width, CellsOf(layer, report_->context, layout).cells});
      measured_layers_.push_back({layer.heads_kv, layer.k_width, layer.v_width, CellsOf(layer, arguments_.chunk_tokens, layout).cells});
    }
    const StatusOr<uint64_t> fingerprint = ModelFingerprint(arguments_.model);
    fingerprint_ = fingerprint.ok() ? fmt::format("{:016x}", fingerprint.value()) : "unknown";
    // What nothing can be done about is said before the model is loaded.
    report_->problem.search_chunks = 1;
    const StatusOr<TuneStep> first = NextStep(report_->problem, report_->results);
    return first.ok() ? Status() : first.status();
  }

  Status Load() {
    StatusOr<std::string> path = WidenWeights(arguments_.model, arguments_.weights, arguments_.threads);
    if (!path.ok()) return path.status();
    models_ = std::make_unique<ModelPair>(*path);
    StatusOr<Model*> model = models_->Get(Model::Devices::kCpu);
    if (!model.ok()) return model.status();
    model_ = *model;
    if (arguments_.chunk_tokens > model_->train_context()) {
      Note(fmt::format("warning: -c {} is more than the {} tokens this model was trained on", arguments_.chunk_tokens, model_->train_context()));
    }
    tokens_ = model_->Tokenize(text_, /*add_special=*/false, /*parse_special=*/false);
    const int available = static_cast<int>(std::min<size_t>(tokens_.size() / static_cast<size_t>(arguments_.chunk_tokens), 1 << 20));
    if (available < 2) {
      return Status::Invalid(fmt::format("text '{}' has {} tokens; two chunks of {} are the least: one to search on and one to confirm",
                                         arguments_.text, tokens_.size(), arguments_.chunk_tokens));
    }
    chunks_ = std::min(arguments_.chunks, available);
    if (chunks_ < arguments_.chunks) Note(fmt::format("warning: the text holds {} of the {} chunks asked for", chunks_, arguments_.chunks));
    SetChunks(chunks_);
    StatusOr<swivel::CacheLayout> layout = ProbeLayout(*model_, arguments_.chunk_tokens, arguments_.threads);
    if (!layout.ok()) return layout.status();
    layout_ = std::move(*layout);
    return {};
  }

  void SetChunks(int chunks) {
    report_->problem.chunks = chunks;
    report_->problem.search_chunks = std::max(1, chunks / 3);
  }

  Conditions StateConditions() const {
    std::error_code error;
    uint64_t hash = 0xcbf29ce484222325ull;
    for (Token token : tokens_) hash = (hash ^ static_cast<uint64_t>(token)) * 0x100000001b3ull;
    text_hash_ = fmt::format("{:016x}", hash);
    return {{"what", "swivel tune"},
            {"model", fmt::format("{} ({} bytes)", arguments_.model, fs::file_size(arguments_.model, error))},
            {"text", fmt::format("{} tokens, {}", tokens_.size(), text_hash_)},
            {"-c", std::to_string(arguments_.chunk_tokens)},
            {"--chunks", std::to_string(chunks_)},
            {"--weights", arguments_.weights},
            {"--calibration", calibration_hash_},
            {"-t", std::to_string(arguments_.threads)},
            {"target", TargetName(*ChooseTarget())},
            {"swivel", SWIVEL_VERSION},
            {"llama.cpp", LlamaBuild()}};
  }

  Status OpenState() {
    state_path_ = arguments_.state.empty() ? arguments_.output + ".state" : arguments_.state;
    const Conditions conditions = StateConditions();
    StatusOr<std::unique_ptr<Store>> opened = Store::Open(state_path_, conditions);
    // The default file belongs to this tool: what another command left there is in the way. A file of the user's is not touched.
    if (!opened.ok() && arguments_.state.empty() && opened.status().code() == StatusCode::kInvalidArgument) {
      Note(fmt::format("{} is of another search, so starting anew", state_path_));
      std::error_code ignored;
      fs::remove(state_path_, ignored);
      opened = Store::Open(state_path_, conditions);
    }
    if (!opened.ok()) return opened.status();
    store_ = std::move(*opened);
    if (store_->size() > 0) Note(fmt::format("going on from {}: {} results are there", state_path_, store_->size()));
    return {};
  }

  // The plan depends on how long things took; one that was made is kept, so that a run that goes on asks for the same.
  std::string PlanName() const { return fmt::format("{} within {} minutes", report_->limit, arguments_.minutes); }

  Status Plan() {
    TuneProblem& problem = report_->problem;
    // The middle one: a machine that was busy for a while does not spoil the plan.
    const double seconds_per_run = seconds_.empty() ? 0 : Median(seconds_);
    const Record* known = store_->Find(kPlan, PlanName());
    if (known != nullptr && known->numbers.contains("chunks") && known->numbers.contains("most_runs")) {
      SetChunks(std::clamp(static_cast<int>(known->numbers.at("chunks")), 2, chunks_));
      problem.most_runs = static_cast<int>(known->numbers.at("most_runs"));
    } else {
      const double affordable = arguments_.minutes * 60 / std::max(seconds_per_run, 1e-3);
      problem.most_runs = static_cast<int>(std::clamp(affordable, 0.0, 1e6));
      while (problem.chunks > 2 && RunsOf(problem).least > problem.most_runs) SetChunks(problem.chunks - 1);
      Record record;
      record.numbers = {{"chunks", static_cast<double>(problem.chunks)}, {"most_runs", static_cast<double>(problem.most_runs)}};
      if (Status status = store_->Add(kPlan, PlanName(), std::move(record)); !status.ok()) return status;
    }
    const TuneRuns runs = RunsOf(problem);
    const int most = std::max(runs.least, runs.most);
    std::string text = fmt::format("plan: {} to {} runs of one cache over {} tokens", runs.least, most, arguments_.chunk_tokens);
    if (seconds_per_run > 0) {
      text += fmt::format(", {:.1f} s each: {:.0f} to {:.0f} minutes", seconds_per_run, std::ceil(runs.least * seconds_per_run / 60),
                          std::ceil(most * seconds_per_run / 60));
    }
    text += fmt::format("; search on {}, confirmation on {} other chunks", problem.search_chunks, problem.chunks - problem.search_chunks);
    if (problem.chunks < chunks_) text += fmt::format(" (not {} chunks: --minutes {})", chunks_, arguments_.minutes);
    if (runs.least > problem.most_runs) text += "; that is more than --minutes, and the least there is: a smaller -c is faster";
    Note(text);
    progress_.Begin(static_cast<double>(std::max(0, most - report_->results.size())) * arguments_.chunk_tokens * 1.25);
    return {};
  }

  Status Search() {
    bool planned = false;
    for (;;) {
      StatusOr<TuneStep> step = NextStep(report_->problem, report_->results);
      if (!step.ok()) return step.status();
      report_->rows = step->rows;
      if (step->outcome) {
        report_->outcome = std::move(*step->outcome);
        return {};
      }
      const TuneRequest& request = *step->request;
      if (Status status = Measure(request); !status.ok()) return status;
      if (!planned) {
        if (Status status = Plan(); !status.ok()) return status;
        planned = true;
      }
    }
  }

  std::vector<Token> Chunk(int chunk) const {
    const size_t length = static_cast<size_t>(arguments_.chunk_tokens);
    const auto slot = static_cast<size_t>(SlotOfChunk(chunk, chunks_, static_cast<int64_t>(tokens_.size() / length)));
    std::vector<Token> tokens(tokens_.begin() + static_cast<long>(slot * length), tokens_.begin() + static_cast<long>((slot + 1) * length));
    if (model_->adds_bos()) tokens[0] = model_->bos();
    return tokens;
  }

  StatusOr<std::unique_ptr<Context>> MakeContext(const CacheChoice& cache) {
    StatusOr<Model*> model = models_->For(cache);
    if (!model.ok()) return model.status();
    ContextOptions options;
    options.context_tokens = arguments_.chunk_tokens;
    options.batch_tokens = options.micro_batch_tokens = kMicroBatch;
    options.max_outputs = LogitBatch(model_->vocab_size(), kMicroBatch);
    options.threads = arguments_.threads;
    return Context::Create(**model, cache, options);
  }

  size_t ContextsAtOnce() const {
    const std::optional<int64_t> available = AvailableMemoryBytes();
    if (!available) return kMostContexts;
    constexpr int64_t kGraphBytes = int64_t{96} << 20;
    // A staged cache keeps rows in f16 before they are packed.
    const int64_t bytes = 2 * layout_.num_values() + int64_t{2} * LogitBatch(model_->vocab_size(), kMicroBatch) * model_->vocab_size() * 4 + kGraphBytes;
    return static_cast<size_t>(std::clamp<int64_t>(*available * 8 / 10 / bytes, 2, static_cast<int64_t>(kMostContexts)));
  }

  // What the store has not, group by group, each beside a base of its own.
  Status Measure(const TuneRequest& request) {
    std::vector<std::string> missing;
    int runs = 0;
    for (const std::string& spec : request.specs) {
      int of_spec = 0;
      for (int chunk = request.first_chunk; chunk <= request.last_chunk; ++chunk) of_spec += Have(spec, chunk) ? 0 : 1;
      if (of_spec > 0) missing.push_back(spec);
      runs += of_spec;
    }
    if (runs == 0) return {};
    if (request.stage == "widths") progress_.Begin(runs * arguments_.chunk_tokens * 1.25);
    const size_t group = ContextsAtOnce() - 1;
    for (size_t from = 0; from < missing.size(); from += group) {
      const std::vector<std::string> specs(missing.begin() + static_cast<long>(from),
                                           missing.begin() + static_cast<long>(std::min(from + group, missing.size())));
      if (Status status = MeasureGroup(request, specs); !status.ok()) return status;
    }
    return {};
  }

  // Takes it from the store when it is there.
  bool Have(const std::string& spec, int chunk) {
    if (report_->results.Find(spec, chunk) != nullptr) return true;
    const Record* record = store_->Find(StoreNameOf(spec), ChunkUnit(chunk));
    if (record == nullptr) return false;
    std::vector<float> kld = ToSeries(*record).kld;
    if (kld.empty()) return false;
    report_->results.Add(spec, chunk, std::move(kld));
    if (const auto seconds = record->numbers.find("seconds"); seconds != record->numbers.end()) seconds_.push_back(seconds->second);
    return true;
  }
  static std::string StoreNameOf(const std::string& spec) { return "swivel:" + spec; }

  Status MeasureGroup(const TuneRequest& request, const std::vector<std::string>& specs) {
    StatusOr<std::unique_ptr<Context>> base = MakeContext(*ParseCacheChoice("f16"));
    if (!base.ok()) return base.status();
    std::vector<std::unique_ptr<Context>> contexts;
    for (const std::string& spec : specs) {
      StatusOr<CacheChoice> choice = ParseCacheChoice("swivel:" + spec);
      if (!choice.ok()) return choice.status();
      StatusOr<std::unique_ptr<Context>> context = MakeContext(*choice);
      if (!context.ok()) return context.status();
      contexts.push_back(std::move(*context));
    }
    for (int chunk = request.first_chunk; chunk <= request.last_chunk; ++chunk) {
      std::vector<Context*> taking = {base->get()};
      std::vector<size_t> which;
      for (size_t i = 0; i < specs.size(); ++i) {
        if (Have(specs[i], chunk)) continue;
        taking.push_back(contexts[i].get());
        which.push_back(i);
      }
      if (which.empty()) continue;
      const Clock::time_point begin = Clock::now();
      LockStep lock_step(taking, {arguments_.chunk_tokens, kMicroBatch, arguments_.chunk_tokens / 2, arguments_.threads}, &progress_);
      StatusOr<std::vector<Series>> series = lock_step.RunChunk(Chunk(chunk), fmt::format("{}, chunk {}", request.stage, chunk + 1));
      if (!series.ok()) return series.status();
      // The base's share in.
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(which.size());
      for (size_t i = 0; i < which.size(); ++i) {
        const std::string& spec = specs[which[i]];
        Record record = ToRecord((*series)[i + 1]);
        const CacheUse use = contexts[which[i]]->Use(layout_);
        if (use.bits_per_value) record.numbers["bits_per_value"] = *use.bits_per_value;
        if (Status status = CheckBits(spec, use); !status.ok()) return status;
        record.numbers["seconds"] = seconds;
        seconds_.push_back(seconds);
        if (Status status = store_->Add(StoreNameOf(spec), ChunkUnit(chunk), std::move(record)); !status.ok()) return status;
        report_->results.Add(spec, chunk, std::move((*series)[i + 1].kld));
      }
    }
    return {};
  }

  // The limit is on what CostOf counts; the plugin counts bytes. Layers that it leaves unpacked would make the choice a wrong one.
  Status CheckBits(const std::string& spec, const CacheUse& use) const {
    const double counted = CostOf(ParseSpec(spec).value(), measured_layers_).bits;
    if (!use.bits_per_value || std::abs(*use.bits_per_value - counted) < 0.02 * counted) return {};
    return Status::Unsupported(fmt::format("{} takes {:.3f} bits a value of this model, not {:.3f}: the plugin does not pack all of its layers", spec,
                                           *use.bits_per_value, counted));
  }

  std::string FileText() const {
    const TuneOutcome& outcome = report_->outcome;
    CacheSpec spec = ParseSpec(outcome.spec).value();
    const TuneCost cost = CostOf(spec, report_->problem.layers);
    if (spec.calibration != "self") spec.calibration = RelativeTo(arguments_.output, spec.calibration);
    std::vector<std::string> head = {
        fmt::format("Cache spec of swivel tune for {}: --kv {}", fs::path(arguments_.model).filename().string(), fs::path(arguments_.output).filename().string()),
        "", "Limit: " + report_->limit, "Choice: " + outcome.reason};
    if (outcome.is_preset) head.push_back("It is the preset " + outcome.preset + ", written out.");
    head.push_back("Command: " + report_->command);
    // A line break in an argument would end the comment.
    for (std::string& line : head) std::replace_if(line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
    std::vector<std::pair<std::string, std::string>> expected;
    if (outcome.kld) {
      expected.emplace_back("kld", fmt::format("{:.6g}  # nats, against f16; prompts of {} tokens, second half", outcome.kld->mean, arguments_.chunk_tokens));
      if (outcome.kld->error) expected.emplace_back("kld_error", fmt::format("{:.2g}  # one standard error", *outcome.kld->error));
    }
    if (outcome.preset_kld && !outcome.is_preset) {
      expected.emplace_back("preset", TomlString(outcome.preset));
      expected.emplace_back("preset_kld", fmt::format("{:.6g}", outcome.preset_kld->mean));
    }
    expected.emplace_back("bits", fmt::format("{:.4f}  # a packed value, side data in", cost.bits));
    expected.emplace_back("cache_bytes", fmt::format("{}  # full, exact rows in", cost.bytes));
    expected.emplace_back("cache_tokens", std::to_string(report_->context));
    expected.emplace_back("model", TomlString(arguments_.model));
    expected.emplace_back("model_fingerprint", TomlString(fingerprint_));
    expected.emplace_back("weights", TomlString(arguments_.weights));
    expected.emplace_back("text", TomlString(arguments_.text));
    expected.emplace_back("text_hash", TomlString(text_hash_));
    expected.emplace_back("confirmed_on", fmt::format("{}  # chunks that the search has not seen", report_->problem.chunks - report_->problem.search_chunks));
    expected.emplace_back("swivel", TomlString(SWIVEL_VERSION));
    expected.emplace_back("llama_cpp", TomlString(LlamaBuild()));
    expected.emplace_back("target", TomlString(TargetName(*ChooseTarget())));
    expected.emplace_back("date", fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr))));
    return TuneFileText(spec, head, expected);
  }

  const TuneArguments& arguments_;
  TuneReport* report_;
  std::string text_, fingerprint_, calibration_hash_ = "self", state_path_;
  mutable std::string text_hash_;
  std::unique_ptr<ModelPair> models_;
  Model* model_ = nullptr;
  std::vector<TuneLayer> measured_layers_;  // with the cells of the contexts that are measured
  std::vector<double> seconds_;             // of each run, those of an interrupted one too
  swivel::CacheLayout layout_;
  std::vector<Token> tokens_;
  int chunks_ = 0;
  std::unique_ptr<Store> store_;
  Progress progress_;
};

}  // namespace

Status Tune(const TuneArguments& arguments, TuneReport* report) { return Tuner(arguments, report).Run(); }

}  // namespace swivel::cli
