#include "eval/store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "eval/output_file.h"

namespace swivel {
namespace {

using Json = nlohmann::json;
constexpr const char* kFormat = "swivel_eval_state";
constexpr const char* kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
// Values are copied as they lie in memory.
static_assert(std::endian::native == std::endian::little);

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

Status CheckHeader(const Json& header, const Conditions& wanted, const std::string& path) {
  if (!header.is_object() || header.value(kFormat, 0) != 1 || !header.contains("conditions") || !header["conditions"].is_object()) {
    return Status::Io(fmt::format("'{}' is not a state file of swivel eval; name another file, or remove it", path));
  }
  std::string differences;
  for (const auto& [key, value] : wanted) {
    const Json& stored = header["conditions"].contains(key) ? header["conditions"][key] : Json();
    const std::string text = stored.is_string() ? stored.get<std::string>() : "not given";
    if (text != value) differences += fmt::format("{}{} is {} there and {} now", differences.empty() ? "" : ", ", key, text, value);
  }
  if (differences.empty()) return {};
  return Status::Invalid(
      fmt::format("the state file '{}' is of another evaluation: {}; name another file, or remove it", path, differences));
}

// False when the line is no record.
bool AddLine(const Json& line, std::map<std::pair<std::string, std::string>, Record>* records) {
  for (const auto& [key, type] : {std::pair("cache", Json::value_t::string), std::pair("unit", Json::value_t::string),
                                  std::pair("columns", Json::value_t::object), std::pair("numbers", Json::value_t::object)}) {
    if (!line.is_object() || !line.contains(key) || line[key].type() != type) return false;
  }
  Record record;
  for (const auto& [name, column] : line["columns"].items()) {
    if (!column.is_string()) return false;
    record.columns[name] = DecodeFloats(column.get<std::string>());
  }
  for (const auto& [name, number] : line["numbers"].items()) {
    if (!number.is_number()) return false;
    record.numbers[name] = number.get<double>();
  }
  (*records)[{line["cache"].get<std::string>(), line["unit"].get<std::string>()}] = std::move(record);
  return true;
}

}  // namespace

StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& path, const Conditions& conditions) {
  auto store = std::make_unique<Store>();
  store->path_ = path;
  size_t whole = 0;  // bytes of whole lines
  StatusOr<std::string> text = ReadFile(path);
  if (!text.ok() && text.status().code() != StatusCode::kNotFound) return text.status();
  if (text.ok() && !text->empty()) {
    for (size_t end = text->find('\n'); end != std::string::npos; end = text->find('\n', whole)) {
      const Json line = Json::parse(text->begin() + static_cast<long>(whole), text->begin() + static_cast<long>(end), nullptr, false);
      if (whole == 0) {
        if (Status status = CheckHeader(line, conditions, path); !status.ok()) return status;
      } else if (!AddLine(line, &store->records_)) {
        return Status::Io(fmt::format("the state file '{}' is damaged; remove it", path));
      }
      whole = end + 1;
    }
    if (whole == 0) return CheckHeader(Json(), conditions, path);
    std::error_code error;
    std::filesystem::resize_file(path, whole, error);
    if (error) return Status::Io(fmt::format("cannot write '{}': {}", path, error.message()));
  }
  store->file_.reset(std::fopen(path.c_str(), "ab"));
  if (store->file_ == nullptr) return Status::Io(fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
  if (whole == 0) {
    const std::string header = Dump({{kFormat, 1}, {"conditions", conditions}});
    if (std::fwrite(header.data(), 1, header.size(), store->file_.get()) != header.size() || std::fflush(store->file_.get()) != 0) {
      return Status::Io(fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
    }
  }
  return store;
}

const Record* Store::Find(const std::string& cache, const std::string& unit) const {
  const auto found = records_.find({cache, unit});
  return found == records_.end() ? nullptr : &found->second;
}

Status Store::Add(const std::string& cache, const std::string& unit, Record record) {
  if (file_ != nullptr) {
    Json line = {{"cache", cache}, {"unit", unit}, {"numbers", record.numbers}, {"columns", Json::object()}};
    for (const auto& [name, column] : record.columns) line["columns"][name] = EncodeFloats(column);
    const std::string text = Dump(line);
    // Synced, since a machine that goes down is one of the things that interrupt a night's work.
    if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() || std::fflush(file_.get()) != 0 ||
        fdatasync(fileno(file_.get())) != 0) {
      return Status::Io(fmt::format("cannot write '{}': {}", path_, std::strerror(errno)));
    }
  }
  records_[{cache, unit}] = std::move(record);
  return {};
}

std::string EncodeFloats(const std::vector<float>& values) {
  const size_t num_bytes = values.size() * sizeof(float);
  std::vector<unsigned char> bytes(num_bytes + 2, 0);
  if (num_bytes > 0) std::memcpy(bytes.data(), values.data(), num_bytes);
  std::string text;
  text.reserve((num_bytes + 2) / 3 * 4);
  for (size_t i = 0; i < num_bytes; i += 3) {
    const uint32_t word = static_cast<uint32_t>(bytes[i] << 16 | bytes[i + 1] << 8 | bytes[i + 2]);
    for (int shift = 18; shift >= 0; shift -= 6) text += kAlphabet[word >> shift & 63];
  }
  for (size_t i = 0; i < (3 - num_bytes % 3) % 3; ++i) text[text.size() - 1 - i] = '=';
  return text;
}

std::vector<float> DecodeFloats(const std::string& text) {
  std::array<int, 256> value;
  value.fill(-1);
  for (int i = 0; i < 64; ++i) value[static_cast<unsigned char>(kAlphabet[i])] = i;
  std::vector<unsigned char> bytes;
  uint32_t word = 0;
  int bits = 0;
  for (const char c : text.substr(0, text.find('='))) {
    const int digit = value[static_cast<unsigned char>(c)];
    if (digit < 0) return {};
    word = word << 6 | static_cast<uint32_t>(digit);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<unsigned char>(word >> bits));
  }
  if (bytes.size() % sizeof(float) != 0) return {};
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace swivel
