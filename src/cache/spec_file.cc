#include "cache/spec_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "cache/spec_items.h"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace swivel {
namespace {

// A file of a few hundred bytes is usual; a model named by mistake is not read.
constexpr int64_t kMostBytes = 1 << 20;

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  StatusOr<CacheSpec> Read(const toml::table& root) {
    SpecBase base;
    for (const auto& [key, node] : root) base.Add(key.str(), key.str() == "preset");
    spec_ = base.Start();
    // The general before the specific, as in a line of text: the order in a file does not matter.
    for (const int pass : {0, 1, 2}) {
      for (const auto& [key, node] : root) {
        const std::string_view name = key.str();
        if ((name == "preset" ? 0 : name == "scale" ? 1 : 2) != pass) continue;
        if (Status status = Entry(key, node); !status.ok()) return status;
      }
    }
    if (Status status = base.Check(); !status.ok()) return Status(status.code(), path_ + ": " + status.message());
    if (Status status = CheckSpec(spec_); !status.ok()) return Status(status.code(), path_ + ": " + status.message());
    return std::move(spec_);
  }

 private:
  Status Entry(const toml::key& key, const toml::node& node) {
    const std::string_view name = key.str();
    if (name == "expected") return node.is_table() ? Status() : Wrong(key, "is a table: [expected]");
    if (name == "layer") return Layers(key, node);
    StatusOr<std::string> value = Value(key, node);
    if (!value.ok()) return value.status();
    if (name == "preset") {
      for (const SpecPreset& preset : SpecPresets()) {
        if (*value == preset.name) return ApplySpecItem(*value, &spec_);
      }
      return Wrong(key, "unknown preset '" + *value + "'; accepted: quality, balanced, small, tiny");
    }
    if (!IsSpecKey(name)) return Wrong(key, "is no key of a spec; accepted: preset, " + SpecKeys() + ", expected");
    const bool names_file = name == "store" || (name == "calibration" && *value != "self" && !value->starts_with(kSelfTokensPrefix));
    if (names_file && !value->empty() && value->front() != '/') *value = FolderOf(path_) + *value;
    const Status status = ApplySpecItem(std::string(name) + "=" + *value, &spec_);
    return status.ok() ? status : Wrong(key, status.message());
  }

  Status Layers(const toml::key& key, const toml::node& node) {
    const toml::array* tables = node.as_array();
    if (tables == nullptr) return Wrong(key, "is a list of tables: [[layer]]");
    for (const toml::node& entry : *tables) {
      const toml::table* table = entry.as_table();
      if (table == nullptr) return Wrong(key, "is a list of tables: [[layer]]");
      if (Status status = Layer(*table); !status.ok()) return status;
    }
    return {};
  }

  Status Layer(const toml::table& table) {
    constexpr const char* kAccepted = "[[layer]] has range, such as \"0-1\", perhaps heads, and codec, or k and v, or one of these";
    std::string range, heads, both, side[2];
    for (const auto& [key, node] : table) {
      std::string* to = key == "range" ? &range : key == "heads" ? &heads : key == "codec" ? &both : key == "k" ? &side[0] : key == "v" ? &side[1] : nullptr;
      if (to == nullptr) return Wrong(key, std::string("unknown key; ") + kAccepted);
      StatusOr<std::string> value = Value(key, node);
      if (!value.ok()) return value.status();
      if (value->empty() || value->find_first_of(":=/") != std::string::npos) return Wrong(key, "'" + *value + "'; " + kAccepted);
      *to = std::move(*value);
    }
    if (range.empty() || both.empty() == (side[0].empty() && side[1].empty())) return Wrong(table.source(), kAccepted);
    if (!heads.empty()) range += "/" + heads;
    std::vector<std::string> items;
    if (!both.empty()) items.push_back(both);
    if (!side[0].empty()) items.push_back("k=" + side[0]);
    if (!side[1].empty()) items.push_back("v=" + side[1]);
    for (const std::string& item : items) {
      if (Status status = ApplySpecItem("layer=" + range + ":" + item, &spec_); !status.ok()) return Wrong(table.source(), status.message());
    }
    return {};
  }

  // As the same thing is written in a line of text.
  StatusOr<std::string> Value(const toml::key& key, const toml::node& node) const {
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* number = node.as_integer()) return std::to_string(number->get());
    if (const auto* flag = node.as_boolean()) return std::string(flag->get() ? "on" : "off");
    if (const auto* number = node.as_floating_point()) {
      char digits[64];
      return std::string(digits, std::to_chars(digits, digits + sizeof(digits), number->get()).ptr);
    }
    return Wrong(key, "has a value of a wrong kind; accepted: a string, a number, true or false");
  }

  Status Wrong(const toml::source_region& source, const std::string& what) const {
    return Status::Invalid(path_ + ":" + std::to_string(source.begin.line) + ": " + what);
  }
  Status Wrong(const toml::key& key, const std::string& what) const { return Wrong(key.source(), "'" + std::string(key.str()) + "': " + what); }

  const std::string& path_;
  CacheSpec spec_;
};

}  // namespace

bool IsSpecFile(std::string_view item) { return item.size() > 5 && item.ends_with(".toml"); }

StatusOr<CacheSpec> ParseSpecFile(std::string_view text, const std::string& path) {
  try {
    const toml::parse_result parsed = toml::parse(text);
    if (!parsed) {
      const toml::parse_error& error = parsed.error();
      return Status::Invalid(path + ":" + std::to_string(error.source().begin.line) + ": not TOML: " + std::string(error.description()));
    }
    return Reader(path).Read(parsed.table());
  } catch (...) {  // of the standard library
    return Status::OutOfMemory(path + ": out of memory");
  }
}

StatusOr<CacheSpec> ReadSpecFile(const std::string& path) {
  const auto failure = [&] {
    return Status(errno == ENOENT || errno == ENOTDIR ? StatusCode::kNotFound : StatusCode::kIo, path + ": cannot be read: " + std::strerror(errno));
  };
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return failure();
  if (!S_ISREG(info.st_mode)) return Status::Io(path + ": is not a regular file");
  if (info.st_size > kMostBytes) return Status::Invalid(path + ": is too large for a cache spec");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) return failure();
  std::string text(static_cast<size_t>(info.st_size), '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return failure();
  return ParseSpecFile(text, path);
}

}  // namespace swivel
