#include "gguf/types.h"

#include <array>

namespace swivel::gguf {
namespace {

struct TypeSize {
  uint32_t type;
  const char* name;
  uint32_t block_values;
  uint32_t block_bytes;
};

// ggml 0.26.0's table (ggml_blck_size, ggml_type_size). Numbers of removed types stay unused upstream, so the table only grows.
constexpr TypeSize kTypes[] = {
    {0, "F32", 1, 4},        {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},    {3, "Q4_1", 32, 20},    {6, "Q5_0", 32, 22},
    {7, "Q5_1", 32, 24},     {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},    {10, "Q2_K", 256, 84},  {11, "Q3_K", 256, 110},
    {12, "Q4_K", 256, 144},  {13, "Q5_K", 256, 176},   {14, "Q6_K", 256, 210}, {15, "Q8_K", 256, 292}, {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74}, {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50}, {20, "IQ4_NL", 32, 18}, {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},  {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},       {25, "I16", 1, 2},      {26, "I32", 1, 4},
    {27, "I64", 1, 8},       {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56}, {30, "BF16", 1, 2},     {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},  {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36},  {41, "Q1_0", 128, 18},  {42, "Q2_0", 64, 18},
};

// Index: general.file_type (llama_ftype). Empty: a number that was withdrawn.
constexpr std::array<const char*, 42> kFileTypes = {"all F32",
                                                    "F16",
                                                    "Q4_0",
                                                    "Q4_1",
                                                    "",
                                                    "",
                                                    "",
                                                    "Q8_0",
                                                    "Q5_0",
                                                    "Q5_1",
                                                    "Q2_K - Medium",
                                                    "Q3_K - Small",
                                                    "Q3_K - Medium",
                                                    "Q3_K - Large",
                                                    "Q4_K - Small",
                                                    "Q4_K - Medium",
                                                    "Q5_K - Small",
                                                    "Q5_K - Medium",
                                                    "Q6_K",
                                                    "IQ2_XXS",
                                                    "IQ2_XS",
                                                    "Q2_K - Small",
                                                    "IQ3_XS",
                                                    "IQ3_XXS",
                                                    "IQ1_S",
                                                    "IQ4_NL",
                                                    "IQ3_S",
                                                    "IQ3_M",
                                                    "IQ2_S",
                                                    "IQ2_M",
                                                    "IQ4_XS",
                                                    "IQ1_M",
                                                    "BF16",
                                                    "",
                                                    "",
                                                    "",
                                                    "TQ1_0",
                                                    "TQ2_0",
                                                    "MXFP4 MoE",
                                                    "NVFP4",
                                                    "Q1_0",
                                                    "Q2_0"};

const TypeSize* Find(uint32_t type) {
  for (const TypeSize& entry : kTypes) {
    if (entry.type == type) return &entry;
  }
  return nullptr;
}

}  // namespace

std::optional<uint64_t> BytesOf(const Tensor& tensor) {
  const TypeSize* type = Find(tensor.type);
  if (type == nullptr) return std::nullopt;
  const uint64_t row = tensor.shape.empty() ? 1 : tensor.shape[0];
  uint64_t bytes;
  if (__builtin_mul_overflow(row / type->block_values + (row % type->block_values != 0), type->block_bytes, &bytes)) return std::nullopt;
  for (size_t i = 1; i < tensor.shape.size(); ++i) {
    if (__builtin_mul_overflow(bytes, tensor.shape[i], &bytes)) return std::nullopt;
  }
  return bytes;
}

std::string TensorTypeName(uint32_t type) {
  const TypeSize* found = Find(type);
  return found != nullptr ? found->name : "type " + std::to_string(type);
}

std::string FileTypeName(int64_t file_type) {
  const bool known = file_type >= 0 && file_type < static_cast<int64_t>(kFileTypes.size()) && *kFileTypes[static_cast<size_t>(file_type)];
  return known ? kFileTypes[static_cast<size_t>(file_type)] : "type " + std::to_string(file_type);
}

}  // namespace swivel::gguf
