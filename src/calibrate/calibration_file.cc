#include "calibrate/calibration_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>

#include "base/hash.h"

namespace swivel {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie in the file");

constexpr std::string_view kMagic = "SWIVELKM";
constexpr uint32_t kVersion = 1;
constexpr uint32_t kGroupMeansFlag = 1, kSelfFlag = 2;
constexpr size_t kHeaderBytes = 68;
constexpr size_t kChecksumBytes = 8;
constexpr size_t kHeadBytes = 32;  // without mean and triangles
constexpr uint64_t kMostFileBytes = uint64_t{1} << 34;

size_t HeadBytes(size_t width) { return kHeadBytes + 4 * (width + width * (width + 1)); }

class Writer {
 public:
  template <class T>
  void Put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
  }
  void Floats(const double* values, size_t count) {
    for (size_t i = 0; i < count; ++i) Put(static_cast<float>(values[i]));
  }
  // Rows of the lower triangle.
  void Triangle(const std::vector<double>& matrix, size_t width) {
    for (size_t i = 0; i < width; ++i) Floats(&matrix[i * width], i + 1);
  }
  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

// Takes numbers off the front. The caller has made sure that they are there.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  size_t left() const { return bytes_.size(); }
  template <class T>
  T Take() {
    T value;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_.remove_prefix(sizeof(T));
    return value;
  }
  std::string Text(size_t count) {
    std::string text(bytes_.substr(0, count));
    bytes_.remove_prefix(count);
    return text;
  }
  bool Floats(double* values, size_t count) {
    bool finite = true;
    for (size_t i = 0; i < count; ++i) {
      values[i] = Take<float>();
      finite = finite && std::isfinite(values[i]);
    }
    return finite;
  }
  // False for what is no second moment.
  bool Triangle(std::vector<double>* matrix, size_t width) {
    bool good = true;
    for (size_t i = 0; i < width; ++i) {
      good = Floats(&(*matrix)[i * width], i + 1) && good && (*matrix)[i * width + i] >= 0;
      for (size_t j = 0; j < i; ++j) (*matrix)[j * width + i] = (*matrix)[i * width + j];
    }
    return good;
  }

 private:
  std::string_view bytes_;
};

std::string Number(uint64_t value) { return std::to_string(value); }

Status Damaged(const std::string& what) { return Status::Invalid("is a damaged calibration file: " + what); }

Status ReadHead(Reader* reader, const std::string& place, HeadMoments* head) {
  const auto width = static_cast<size_t>(head->width);
  head->key_weight = reader->Take<double>();
  head->key_weight_squares = reader->Take<double>();
  head->query_weight = reader->Take<double>();
  head->num_keys = static_cast<int64_t>(reader->Take<uint64_t>());
  bool good = head->num_keys >= 0;
  for (double weight : {head->key_weight, head->key_weight_squares, head->query_weight})
    good = good && std::isfinite(weight) && weight >= 0;
  good = reader->Floats(head->mean.data(), width) && good;
  good = reader->Triangle(&head->key_covariance, width) && good;
  good = reader->Triangle(&head->query_moment, width) && good;
  return good ? Status() : Damaged(place + " holds values that are no moments");
}

Status ReadLayer(Reader* reader, const std::string& place, Calibration* calibration) {
  if (reader->left() < 12) return Damaged("it ends before " + place);
  LayerMoments layer;
  const uint32_t number = reader->Take<uint32_t>(), heads = reader->Take<uint32_t>(), width = reader->Take<uint32_t>();
  if (number > INT32_MAX || heads < 1 || heads > kMostCalibrationHeads || width < 1 || width > kMostCalibrationWidth) {
    return Damaged(place + " is number " + Number(number) + " with " + Number(heads) + " heads of width " + Number(width));
  }
  layer.layer = static_cast<int>(number);
  layer.width = static_cast<int>(width);
  if (!calibration->layers.empty() && layer.layer <= calibration->layers.back().layer) {
    return Damaged(place + " is number " + Number(number) + ", which does not rise");
  }
  // Before anything is allocated: sizes alone must not cost memory.
  if (reader->left() / HeadBytes(width) < heads) return Damaged("it ends inside " + place);
  for (uint32_t i = 0; i < heads; ++i) {
    HeadMoments head = EmptyMoments(layer.width, calibration->group_means);
    if (Status status = ReadHead(reader, place + ", head " + Number(i), &head); !status.ok()) return status;
    layer.heads.push_back(std::move(head));
  }
  calibration->layers.push_back(std::move(layer));
  return {};
}

Status Failure(const std::string& path, const char* what) {
  const std::string reason = std::strerror(errno);
  return Status(errno == ENOENT ? StatusCode::kNotFound : StatusCode::kIo, path + ": cannot be " + what + ": " + reason);
}

}  // namespace

const LayerMoments* Calibration::Find(int layer) const {
  for (const LayerMoments& candidate : layers) {
    if (candidate.layer == layer) return &candidate;
  }
  return nullptr;
}

std::string CalibrationBytes(const Calibration& calibration) {
  const std::string_view description = std::string_view(calibration.description).substr(0, kMostDescriptionBytes);
  size_t size = kHeaderBytes + description.size() + kChecksumBytes;
  for (const LayerMoments& layer : calibration.layers) size += 12 + layer.heads.size() * HeadBytes(static_cast<size_t>(layer.width));
  Writer writer;
  writer.bytes().reserve(size);
  writer.bytes() += kMagic;
  writer.Put<uint32_t>(kVersion);
  writer.Put<uint32_t>((calibration.group_means ? kGroupMeansFlag : 0) | (calibration.self ? kSelfFlag : 0));
  writer.Put<uint64_t>(size);
  writer.Put<uint64_t>(calibration.fingerprint);
  writer.Put<uint64_t>(calibration.text_hash);
  writer.Put<uint64_t>(static_cast<uint64_t>(calibration.num_tokens));
  writer.Put<uint32_t>(static_cast<uint32_t>(calibration.chunk_tokens));
  writer.Put<uint32_t>(static_cast<uint32_t>(calibration.num_chunks));
  writer.Put<uint32_t>(static_cast<uint32_t>(calibration.planned_chunks));
  writer.Put<uint32_t>(static_cast<uint32_t>(calibration.layers.size()));
  writer.Put<uint32_t>(static_cast<uint32_t>(description.size()));
  writer.bytes() += description;
  for (const LayerMoments& layer : calibration.layers) {
    writer.Put<uint32_t>(static_cast<uint32_t>(layer.layer));
    writer.Put<uint32_t>(static_cast<uint32_t>(layer.heads.size()));
    writer.Put<uint32_t>(static_cast<uint32_t>(layer.width));
    for (const HeadMoments& head : layer.heads) {
      const auto width = static_cast<size_t>(head.width);
      writer.Put(head.key_weight);
      writer.Put(head.key_weight_squares);
      writer.Put(head.query_weight);
      writer.Put<uint64_t>(static_cast<uint64_t>(head.num_keys));
      writer.Floats(head.mean.data(), width);
      writer.Triangle(head.key_covariance, width);
      writer.Triangle(head.query_moment, width);
    }
  }
  writer.Put<uint64_t>(Hash64(writer.bytes()));
  return std::move(writer.bytes());
}

StatusOr<Calibration> ParseCalibration(std::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return Status::Invalid("is not a calibration file: it does not begin with the letters " + std::string(kMagic));
  }
  if (bytes.size() < kHeaderBytes + kChecksumBytes) return Damaged("it is only " + Number(bytes.size()) + " bytes long");
  Reader reader(bytes.substr(kMagic.size(), bytes.size() - kMagic.size() - kChecksumBytes));
  const uint32_t version = reader.Take<uint32_t>(), flags = reader.Take<uint32_t>();
  if (version != kVersion) {
    return Status::Unsupported("has version " + Number(version) + " of the calibration format; this build reads version " +
                               Number(kVersion) + ": run swivel calibrate again");
  }
  const uint64_t size = reader.Take<uint64_t>();
  if (size != bytes.size()) return Damaged("it should have " + Number(size) + " bytes and has " + Number(bytes.size()));
  uint64_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + bytes.size() - kChecksumBytes, kChecksumBytes);
  if (checksum != Hash64(bytes.substr(0, bytes.size() - kChecksumBytes))) return Damaged("its checksum is wrong");
  if ((flags & ~(kGroupMeansFlag | kSelfFlag)) != 0) return Damaged("its flags are " + Number(flags));

  Calibration calibration;
  calibration.group_means = (flags & kGroupMeansFlag) != 0;
  calibration.self = (flags & kSelfFlag) != 0;
  calibration.fingerprint = reader.Take<uint64_t>();
  calibration.text_hash = reader.Take<uint64_t>();
  const uint64_t tokens = reader.Take<uint64_t>();
  uint32_t counts[5];
  for (uint32_t& count : counts) count = reader.Take<uint32_t>();
  const auto [chunk_tokens, num_chunks, planned, layers, description] = counts;
  if (tokens > INT64_MAX || chunk_tokens > INT32_MAX || planned > INT32_MAX || num_chunks > planned) {
    return Damaged("its counts of tokens and chunks make no sense");
  }
  if (layers > kMostCalibrationLayers) return Damaged("it claims " + Number(layers) + " layers");
  if (description > kMostDescriptionBytes || description > reader.left()) {
    return Damaged("it claims a description of " + Number(description) + " bytes");
  }
  calibration.num_tokens = static_cast<int64_t>(tokens);
  calibration.chunk_tokens = static_cast<int>(chunk_tokens);
  calibration.num_chunks = static_cast<int>(num_chunks);
  calibration.planned_chunks = static_cast<int>(planned);
  calibration.description = reader.Text(description);
  for (uint32_t i = 0; i < layers; ++i) {
    const std::string place = "layer " + Number(i + 1) + " of " + Number(layers);
    if (Status status = ReadLayer(&reader, place, &calibration); !status.ok()) return status;
  }
  if (reader.left() != 0) return Damaged(Number(reader.left()) + " bytes follow the last layer");
  return calibration;
}

StatusOr<Calibration> ReadCalibration(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return Failure(path, "read");
  if (!S_ISREG(info.st_mode)) return Status::Invalid(path + ": is not a regular file");
  if (static_cast<uint64_t>(info.st_size) > kMostFileBytes) return Status::Invalid(path + ": is too large for a calibration file");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) return Failure(path, "read");
  // The letters first: a model named by mistake is not read to its end.
  std::string bytes(kMagic.size(), '\0');
  bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file.get()));
  if (bytes == kMagic) {
    bytes.resize(static_cast<size_t>(info.st_size));
    bytes.resize(kMagic.size() + std::fread(bytes.data() + kMagic.size(), 1, bytes.size() - kMagic.size(), file.get()));
  }
  if (std::ferror(file.get()) != 0) return Failure(path, "read");
  StatusOr<Calibration> calibration = ParseCalibration(bytes);
  if (!calibration.ok()) return Status(calibration.status().code(), path + ": " + calibration.status().message());
  return calibration;
}

HeadMoments AsInFile(HeadMoments moments) {
  for (auto* values : {&moments.mean, &moments.key_covariance, &moments.query_moment}) {
    for (double& value : *values) value = static_cast<float>(value);
  }
  return moments;
}

Status WriteCalibration(const std::string& path, const Calibration& calibration, FileThere there) {
  const std::string bytes = CalibrationBytes(calibration);
  static std::atomic<int> number{0};  // contexts of one process may write at once
  const std::string partial = path + ".tmp." + std::to_string(getpid()) + "." + std::to_string(number++);
  const int file = open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return Failure(path, "written");
  Status status;
  for (size_t done = 0; done < bytes.size() && status.ok();) {
    const ssize_t count = write(file, bytes.data() + done, bytes.size() - done);
    if (count > 0) {
      done += static_cast<size_t>(count);
    } else if (count == 0 || errno != EINTR) {
      status = Failure(path, "written");
    }
  }
  if (close(file) != 0 && status.ok()) status = Failure(path, "written");
  if (there == FileThere::kKeepFile) {
    // A link is made or not, whoever else comes between.
    if (status.ok() && link(partial.c_str(), path.c_str()) != 0) {
      status = errno == EEXIST ? Status::Invalid(path + ": exists already") : Failure(path, "written");
    }
    unlink(partial.c_str());
    return status;
  }
  if (status.ok() && std::rename(partial.c_str(), path.c_str()) != 0) status = Failure(path, "replaced");
  if (!status.ok()) unlink(partial.c_str());
  return status;
}

Status CheckModel(const Calibration& calibration, const std::string& path, uint64_t fingerprint) {
  if (calibration.fingerprint == fingerprint) return {};
  char text[64];
  std::snprintf(text, sizeof text, "%016llx, not %016llx", static_cast<unsigned long long>(calibration.fingerprint),
                static_cast<unsigned long long>(fingerprint));
  return Status::Invalid(path + ": was made for another model (fingerprint " + text + "; " + calibration.description +
                         "); run swivel calibrate -m with this model");
}

std::string DefaultCalibrationPath(uint64_t fingerprint) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::string folder;
  // The specification of XDG has relative paths ignored.
  if (cache != nullptr && cache[0] == '/') {
    folder = cache;
  } else if (home != nullptr && home[0] != '\0') {
    folder = std::string(home) + "/.cache";
  } else {
    return "";
  }
  char name[64];
  std::snprintf(name, sizeof name, "/swivel/calibration/%016llx.swivel", static_cast<unsigned long long>(fingerprint));
  return folder + name;
}

}  // namespace swivel
