#include "cli/doctor_elf.h"

#include <elf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace swivel::cli {
namespace {

// Symbol tables of the largest hosts are a few MiB; anything above this is not looked at.
constexpr uint64_t kMaxTableBytes = uint64_t{256} << 20;

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
constexpr uint16_t kMachine = EM_NONE;
#endif

class Image {
 public:
  Image(std::FILE* file, uint64_t size) : file_(file, &std::fclose), size_(size) {}

  // `count` records from `offset`; empty when they do not lie in the file.
  template <class T>
  std::vector<T> Read(uint64_t offset, uint64_t count) {
    std::vector<T> records;
    if (offset > size_ || count > kMaxTableBytes / sizeof(T) || count * sizeof(T) > size_ - offset) return records;
    records.resize(count);
    if (fseeko(file_.get(), static_cast<off_t>(offset), SEEK_SET) != 0 ||
        std::fread(records.data(), sizeof(T), count, file_.get()) != count) {
      records.clear();
    }
    return records;
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  uint64_t size_;
};

std::string TextAt(const std::vector<char>& table, uint64_t offset) {
  if (offset >= table.size()) return "";
  const char* begin = table.data() + offset;
  return std::string(begin, strnlen(begin, table.size() - offset));
}

void ReadDynamic(Image& image, const std::vector<Elf64_Phdr>& segments, const Elf64_Phdr& segment, ElfFile* elf) {
  uint64_t strings_address = 0, strings_bytes = 0;
  std::vector<uint64_t> needed;
  for (const Elf64_Dyn& entry : image.Read<Elf64_Dyn>(segment.p_offset, segment.p_filesz / sizeof(Elf64_Dyn))) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_NEEDED) needed.push_back(entry.d_un.d_val);
    if (entry.d_tag == DT_STRTAB) strings_address = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) strings_bytes = entry.d_un.d_val;
    if (entry.d_tag == DT_FLAGS_1) elf->pie_flag = (entry.d_un.d_val & DF_1_PIE) != 0;
  }
  // The string table is named by address: find the segment that maps it.
  for (const Elf64_Phdr& load : segments) {
    if (load.p_type != PT_LOAD || strings_address < load.p_vaddr || strings_address - load.p_vaddr >= load.p_filesz) continue;
    const std::vector<char> strings = image.Read<char>(strings_address - load.p_vaddr + load.p_offset, strings_bytes);
    for (uint64_t offset : needed) elf->needed.push_back(TextAt(strings, offset));
    return;
  }
}

void ReadSymbols(Image& image, const Elf64_Ehdr& header, const std::vector<std::string>& wanted, ElfFile* elf) {
  const std::vector<Elf64_Shdr> sections = image.Read<Elf64_Shdr>(header.e_shoff, header.e_shnum);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& names = sections[section.sh_link];
    const std::vector<char> strings = image.Read<char>(names.sh_offset, names.sh_size);
    for (const Elf64_Sym& symbol : image.Read<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym))) {
      const std::string name = TextAt(strings, symbol.st_name);
      if (std::find(wanted.begin(), wanted.end(), name) == wanted.end()) continue;
      (symbol.st_shndx == SHN_UNDEF ? elf->wants : elf->defines).push_back(name);
    }
  }
}

}  // namespace

bool ElfFile::Defines(const std::string& symbol) const { return std::find(defines.begin(), defines.end(), symbol) != defines.end(); }

StatusOr<ElfFile> ReadElf(const std::string& path, const std::vector<std::string>& symbols) {
  struct stat info {};
  std::FILE* file = stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) ? std::fopen(path.c_str(), "rb") : nullptr;
  if (file == nullptr) return Status::Io(path + ": cannot be read");
  Image image(file, static_cast<uint64_t>(info.st_size));
  const std::vector<Elf64_Ehdr> headers = image.Read<Elf64_Ehdr>(0, 1);
  if (headers.empty() || std::memcmp(headers[0].e_ident, ELFMAG, SELFMAG) != 0) return Status::Invalid(path + ": not an ELF file");
  const Elf64_Ehdr& header = headers[0];
  ElfFile elf;
  elf.native = header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB && header.e_machine == kMachine;
  if (!elf.native) return elf;
  const std::vector<Elf64_Phdr> segments = image.Read<Elf64_Phdr>(header.e_phoff, header.e_phnum);
  if (segments.empty()) return Status::Invalid(path + ": a damaged or unlinked ELF file");
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_INTERP)
      elf.interpreter = TextAt(image.Read<char>(segment.p_offset, std::min<uint64_t>(segment.p_filesz, 4096)), 0);
    if (segment.p_type != PT_DYNAMIC) continue;
    elf.dynamic = true;
    ReadDynamic(image, segments, segment, &elf);
  }
  ReadSymbols(image, header, symbols, &elf);
  return elf;
}

}  // namespace swivel::cli
