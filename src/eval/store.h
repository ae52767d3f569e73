// What an evaluation has finished, by cache and unit of work, in memory or also in a file that outlives the process.
//
// Every figure of a report is computed from these records, so a run that was killed and started again ends with the figures of one that
// was not. The file is a line of JSON a record, appended and synced as each is finished; its first line says under which conditions they
// were measured, and a run under others refuses it. A last line that was cut off is dropped.
#ifndef SWIVEL_EVAL_STORE_H_
#define SWIVEL_EVAL_STORE_H_

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace swivel {

struct Record {
  std::map<std::string, std::vector<float>> columns;
  std::map<std::string, double> numbers;
};

using Conditions = std::map<std::string, std::string>;

class Store {
 public:
  Store() = default;  // in memory
  // Reads `path` when it exists, else begins it. kInvalidArgument names each condition that differs; kIo when it cannot be written or is
  // no such file.
  static StatusOr<std::unique_ptr<Store>> Open(const std::string& path, const Conditions& conditions);

  // Null when that has not been done. Valid until the next Add() of the same key.
  const Record* Find(const std::string& cache, const std::string& unit) const;
  Status Add(const std::string& cache, const std::string& unit, Record record);
  size_t size() const { return records_.size(); }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::map<std::pair<std::string, std::string>, Record> records_;
  std::unique_ptr<std::FILE, Close> file_;
  std::string path_;
};

// Float32, little-endian, as base64: what reports and stores keep per-position values in.
std::string EncodeFloats(const std::vector<float>& values);
// Empty for text that is not that.
std::vector<float> DecodeFloats(const std::string& text);

}  // namespace swivel

#endif  // SWIVEL_EVAL_STORE_H_
