// Feeds a fuzz target random and mutated inputs for a while, the same ones in every run.
//
// usage: <target> [--seconds N] [--first N] [FILE...]     FILE: an input to replay
// A crash prints the number of the input; `--first` starts there.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/random.h"
#include "fuzz.h"

namespace {

using swivel::Random;

std::atomic<uint64_t> g_input{0};

void ReportInput(int signal) {
  char text[64];
  const int length = std::snprintf(text, sizeof(text), "crashed in input %llu\n", static_cast<unsigned long long>(g_input.load()));
  if (write(STDERR_FILENO, text, static_cast<size_t>(length)) < 0) _exit(1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Small changes, as libFuzzer makes them: flips, interesting bytes and words, cuts, repeats, inserted noise.
void Mutate(Random& random, std::vector<uint8_t>& bytes) {
  static constexpr uint64_t kInteresting[] = {0,
                                              1,
                                              2,
                                              0x7f,
                                              0x80,
                                              0xff,
                                              0x7fff,
                                              0x8000,
                                              0xffff,
                                              0x7fffffff,
                                              0x80000000,
                                              0xffffffff,
                                              0x7fffffffffffffff,
                                              0xffffffffffffffff,
                                              0x100000000,
                                              0x4000000000000000};
  const int size = static_cast<int>(bytes.size());
  switch (random.Below(7)) {
    case 0:
      if (size > 0) bytes[random.Below(size)] ^= static_cast<uint8_t>(1 << random.Below(8));
      break;
    case 1:
      if (size > 0) bytes[random.Below(size)] = static_cast<uint8_t>(random.Bits() >> 40);
      break;
    case 2: {
      const int width = 1 << random.Below(4);
      const uint64_t value = kInteresting[random.Below(static_cast<int>(std::size(kInteresting)))];
      if (size >= width) std::memcpy(bytes.data() + random.Below(size - width + 1), &value, static_cast<size_t>(width));
      break;
    }
    case 3:
      bytes.resize(static_cast<size_t>(random.Below(size + 1)));
      break;
    case 4: {
      const int at = random.Below(size + 1), count = random.Below(9);
      for (int i = 0; i < count; ++i) bytes.insert(bytes.begin() + at, static_cast<uint8_t>(random.Bits() >> 40));
      break;
    }
    case 5:
      if (size > 0) {
        const int from = random.Below(size), count = random.Below(std::min(size - from, 32) + 1);
        const std::vector<uint8_t> part(bytes.begin() + from, bytes.begin() + from + count);
        bytes.insert(bytes.begin() + random.Below(size), part.begin(), part.end());
      }
      break;
    default:
      if (size > 1) bytes.erase(bytes.begin() + random.Below(size));
  }
}

std::vector<uint8_t> MakeInput(uint64_t number) {
  Random random(number + 1);
  int num_seeds = 0;
  while (kFuzzSeeds[num_seeds].data != nullptr) ++num_seeds;
  std::vector<uint8_t> bytes;
  if (num_seeds == 0 || random.Below(4) == 0) {
    bytes.resize(static_cast<size_t>(random.Below(random.Below(4) == 0 ? 4096 : 64)));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.Bits() >> 40);
    return bytes;
  }
  const FuzzSeed& seed = kFuzzSeeds[random.Below(num_seeds)];
  bytes.assign(seed.data, seed.data + seed.size);
  for (int mutations = random.Below(6); mutations > 0; --mutations) Mutate(random, bytes);
  return bytes;
}

// The input ends where its memory ends, so that AddressSanitizer sees a read behind it.
void Run(const std::vector<uint8_t>& bytes) {
  uint8_t* exact = static_cast<uint8_t*>(std::malloc(bytes.size() + (bytes.empty() ? 1 : 0)));
  if (!bytes.empty()) std::memcpy(exact, bytes.data(), bytes.size());
  LLVMFuzzerTestOneInput(exact, bytes.size());
  std::free(exact);
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 2.0;
  uint64_t first = 0;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
      seconds = std::atof(argv[++i]);
    } else if (std::strcmp(argv[i], "--first") == 0 && i + 1 < argc) {
      first = std::strtoull(argv[++i], nullptr, 10);
    } else {
      files.push_back(argv[i]);
    }
  }
  for (const std::string& name : files) {
    std::ifstream file(name, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "cannot read %s\n", name.c_str());
      return 1;
    }
    Run({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  }
  if (!files.empty()) return 0;
  for (int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, &ReportInput);
  const auto start = std::chrono::steady_clock::now();
  uint64_t number = first;
  for (; std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds; ++number) {
    g_input = number;
    Run(MakeInput(number));
  }
  std::printf("%llu inputs\n", static_cast<unsigned long long>(number - first));
  return 0;
}
