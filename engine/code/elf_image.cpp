// SPDX-License-Identifier: Apache-2.0
#include "code/elf_image.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace stallscope::code {
namespace {

constexpr std::uint64_t kLargestFile = std::uint64_t{8} << 30;

template <typename T>
std::optional<T> load(Bytes bytes, std::uint64_t offset = 0) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// A private copy of chosen ranges of a file, at their own offsets; the rest reads as zero and takes
// no memory.
class SparseCopy {
 public:
  SparseCopy(int fd, std::uint64_t size) : fd_(fd), size_(size) {
    void* map = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) return;
    data_ = std::shared_ptr<std::uint8_t>(static_cast<std::uint8_t*>(map),
                                          [size](std::uint8_t* p) { munmap(p, size); });
  }
  bool ok() const { return data_ != nullptr; }
  Bytes bytes() const { return {data_.get(), size_}; }
  std::shared_ptr<const std::uint8_t> data() const { return data_; }

  void take(std::uint64_t offset, std::uint64_t length) {
    if (offset >= size_) return;
    length = std::min(length, size_ - offset);
    while (length > 0) {
      ssize_t got = pread(fd_, data_.get() + offset, length, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return;
      offset += static_cast<std::uint64_t>(got);
      length -= static_cast<std::uint64_t>(got);
    }
  }

 private:
  int fd_;
  std::uint64_t size_;
  std::shared_ptr<std::uint8_t> data_;
};

std::uint64_t section_count(Bytes file, const Elf64_Ehdr& header) {
  if (header.e_shoff == 0 || header.e_shentsize != sizeof(Elf64_Shdr)) return 0;
  std::uint64_t count = header.e_shnum;
  if (count == 0) {  // more than 65,279 sections: the count is in the first header
    auto first = load<Elf64_Shdr>(file, header.e_shoff);
    count = first ? first->sh_size : 0;
  }
  if (header.e_shoff >= file.size()) return 0;
  return count <= (file.size() - header.e_shoff) / sizeof(Elf64_Shdr) ? count : 0;
}

bool wanted(const Elf64_Shdr& section) {
  return section.sh_type != SHT_NOBITS &&
         ((section.sh_flags & SHF_ALLOC) || section.sh_type == SHT_SYMTAB ||
          section.sh_type == SHT_STRTAB);
}

void take_contents(SparseCopy& copy) {
  copy.take(0, sizeof(Elf64_Ehdr));
  auto header = load<Elf64_Ehdr>(copy.bytes());
  if (!header) return;
  copy.take(header->e_phoff, std::uint64_t{header->e_phnum} * sizeof(Elf64_Phdr));
  copy.take(header->e_shoff, sizeof(Elf64_Shdr));
  std::uint64_t sections = section_count(copy.bytes(), *header);
  copy.take(header->e_shoff, sections * sizeof(Elf64_Shdr));
  std::uint64_t budget = 2 * copy.bytes().size();  // sections of a hostile file may overlap
  auto take = [&](std::uint64_t offset, std::uint64_t length) {
    length = std::min({length, budget, copy.bytes().size()});
    budget -= length;
    copy.take(offset, length);
  };
  for (std::uint16_t i = 0; i < header->e_phnum; ++i) {
    auto segment = load<Elf64_Phdr>(copy.bytes(), header->e_phoff + i * sizeof(Elf64_Phdr));
    if (segment && segment->p_type == PT_LOAD) take(segment->p_offset, segment->p_filesz);
  }
  for (std::uint64_t i = 0; i < sections; ++i) {
    auto section = load<Elf64_Shdr>(copy.bytes(), header->e_shoff + i * sizeof(Elf64_Shdr));
    if (section && wanted(*section) && !(section->sh_flags & SHF_ALLOC))
      take(section->sh_offset, section->sh_size);
  }
}

Error damaged(const std::string& why) { return {"the ELF file is damaged", why, ""}; }

}  // namespace

std::string_view string_at(Bytes table, std::uint64_t offset) {
  if (offset >= table.size()) return {};
  const auto* start = reinterpret_cast<const char*>(table.data()) + offset;
  const auto* end = static_cast<const char*>(std::memchr(start, 0, table.size() - offset));
  return end ? std::string_view(start, end - start) : std::string_view{};
}

Result<ElfImage> ElfImage::open(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Error{"cannot read " + path, std::strerror(errno), ""};
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd);
    return Error{"cannot read " + path, "it is not a regular file", ""};
  }
  auto size = static_cast<std::uint64_t>(status.st_size);
  if (size < sizeof(Elf64_Ehdr) || size > kLargestFile) {
    ::close(fd);
    return damaged("a file of " + std::to_string(size) + " bytes is no program");
  }
  SparseCopy copy(fd, size);
  if (copy.ok()) take_contents(copy);
  ::close(fd);
  if (!copy.ok()) return Error{"cannot read " + path, "no address space for its contents", ""};
  return parse(copy.data(), size);
}

Result<ElfImage> ElfImage::from_bytes(std::vector<std::uint8_t> bytes) {
  auto owner = std::make_shared<std::vector<std::uint8_t>>(std::move(bytes));
  return parse(std::shared_ptr<const std::uint8_t>(owner, owner->data()), owner->size());
}

Result<ElfImage> ElfImage::parse(std::shared_ptr<const std::uint8_t> data, std::uint64_t size) {
  ElfImage image;
  image.data_ = std::move(data);
  image.size_ = size;
  auto header = load<Elf64_Ehdr>(image.range(0, size));
  if (!header) return damaged("it is shorter than an ELF header");
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return damaged("it has no ELF magic");
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB)
    return damaged("it is not 64-bit little-endian");
  image.type_ = header->e_type;
  image.machine_ = header->e_machine;
  image.entry_ = header->e_entry;
  image.read_segments();
  image.read_sections();
  return image;
}

void ElfImage::read_segments() {
  auto header = *load<Elf64_Ehdr>(range(0, size_));
  if (header.e_phnum == 0) return;
  if (header.e_phentsize != sizeof(Elf64_Phdr)) {
    segments_cut_ = true;
    return;
  }
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    std::uint64_t offset = header.e_phoff + i * sizeof(Elf64_Phdr);
    auto p = offset >= header.e_phoff ? load<Elf64_Phdr>(range(0, size_), offset) : std::nullopt;
    if (!p) {
      segments_cut_ = true;
      return;
    }
    segments_.push_back({p->p_type, p->p_flags, p->p_vaddr, p->p_offset, p->p_filesz, p->p_memsz});
  }
}

void ElfImage::read_sections() {
  auto header = *load<Elf64_Ehdr>(range(0, size_));
  std::uint64_t count = section_count(range(0, size_), header);
  std::vector<std::uint32_t> names;
  for (std::uint64_t i = 0; i < count; ++i) {
    auto s = *load<Elf64_Shdr>(range(0, size_), header.e_shoff + i * sizeof(Elf64_Shdr));
    sections_.push_back({{}, s.sh_type, s.sh_flags, s.sh_addr, s.sh_offset, s.sh_size, s.sh_link});
    names.push_back(s.sh_name);
  }
  std::uint64_t names_index = header.e_shstrndx;
  if (names_index == SHN_XINDEX && count > 0) names_index = sections_[0].link;
  if (names_index >= count) return;
  Bytes table = contents(sections_[names_index]);
  for (std::uint64_t i = 0; i < count; ++i) sections_[i].name = string_at(table, names[i]);
}

Bytes ElfImage::range(std::uint64_t offset, std::uint64_t size) const {
  if (offset > size_ || size > size_ - offset) return {};
  return {data_.get() + offset, size};
}

const Section* ElfImage::section(std::string_view name) const {
  for (const Section& s : sections_)
    if (s.name == name) return &s;
  return nullptr;
}

const Segment* ElfImage::segment(std::uint32_t type) const {
  for (const Segment& s : segments_)
    if (s.type == type) return &s;
  return nullptr;
}

Bytes ElfImage::contents(const Section& s) const {
  return s.type == SHT_NOBITS ? Bytes{} : range(s.offset, s.size);
}

Bytes ElfImage::contents(const Segment& s) const { return range(s.offset, s.file_size); }

Bytes ElfImage::at(std::uint64_t address) const {
  for (const Segment& s : segments_) {
    if (s.type != PT_LOAD || address < s.address || address - s.address >= s.file_size) continue;
    Bytes all = contents(s);
    std::uint64_t skip = address - s.address;
    return skip < all.size() ? all.subspan(skip) : Bytes{};
  }
  return {};
}

bool ElfImage::writable(std::uint64_t address) const {
  return std::any_of(segments_.begin(), segments_.end(), [&](const Segment& s) {
    return s.type == PT_LOAD && (s.flags & PF_W) && address >= s.address &&
           address - s.address < s.memory_size;
  });
}

std::optional<std::uint64_t> ElfImage::word_at(std::uint64_t address) const {
  return load<std::uint64_t>(at(address));
}

std::vector<Symbol> ElfImage::symbols() const {
  std::vector<Symbol> out;
  for (const Section& s : sections_) {
    if (s.type == SHT_SYMTAB) add_symbols(s, false, out);
    if (s.type == SHT_DYNSYM) add_symbols(s, true, out);
  }
  return out;
}

void ElfImage::add_symbols(const Section& table, bool exported, std::vector<Symbol>& out) const {
  Bytes entries = contents(table);
  Bytes strings = table.link < sections_.size() ? contents(sections_[table.link]) : Bytes{};
  // Overlapping tables of a hostile file would multiply its entries.
  if (out.size() > size_ / sizeof(Elf64_Sym)) return;
  for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= entries.size(); at += sizeof(Elf64_Sym)) {
    auto s = *load<Elf64_Sym>(entries, at);
    out.push_back({string_at(strings, s.st_name), s.st_value, s.st_size,
                   static_cast<std::uint8_t>(ELF64_ST_TYPE(s.st_info)), s.st_shndx != SHN_UNDEF,
                   exported});
  }
}

std::vector<Relocation> ElfImage::relocations() const {
  std::vector<Relocation> out;
  for (const Section& s : sections_)
    if (s.type == SHT_RELA && (s.flags & SHF_ALLOC)) add_relocations(contents(s), out);
  if (!sections_.empty()) return out;
  std::uint64_t rela = 0, rela_size = 0, plt = 0, plt_size = 0;
  for (const Dynamic& d : dynamic()) {
    if (d.tag == DT_RELA) rela = d.value;
    if (d.tag == DT_RELASZ) rela_size = d.value;
    if (d.tag == DT_JMPREL) plt = d.value;
    if (d.tag == DT_PLTRELSZ) plt_size = d.value;
  }
  Bytes first = at(rela), second = at(plt);
  add_relocations(first.first(std::min<std::uint64_t>(first.size(), rela_size)), out);
  add_relocations(second.first(std::min<std::uint64_t>(second.size(), plt_size)), out);
  return out;
}

void ElfImage::add_relocations(Bytes table, std::vector<Relocation>& out) const {
  if (out.size() > size_ / sizeof(Elf64_Rela)) return;
  for (std::uint64_t at = 0; at + sizeof(Elf64_Rela) <= table.size(); at += sizeof(Elf64_Rela)) {
    auto r = *load<Elf64_Rela>(table, at);
    out.push_back({r.r_offset, static_cast<std::uint32_t>(ELF64_R_TYPE(r.r_info)),
                   static_cast<std::uint64_t>(r.r_addend)});
  }
}

std::vector<Dynamic> ElfImage::dynamic() const {
  const Segment* segment = this->segment(PT_DYNAMIC);
  std::vector<Dynamic> out;
  if (!segment) return out;
  Bytes table = contents(*segment);
  for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= table.size(); at += sizeof(Elf64_Dyn)) {
    auto d = *load<Elf64_Dyn>(table, at);
    if (d.d_tag == DT_NULL) break;
    out.push_back({d.d_tag, d.d_un.d_val});
  }
  return out;
}

Bytes ElfImage::dynamic_strings() const {
  for (const Dynamic& d : dynamic())
    if (d.tag == DT_STRTAB) return at(d.value);
  return {};
}

std::string ElfImage::damage() const {
  if (segments_cut_) return "its program headers lie outside the file";
  bool loads = false;
  for (const Segment& s : segments_) {
    if (s.type != PT_LOAD && s.type != PT_INTERP && s.type != PT_DYNAMIC) continue;
    loads |= s.type == PT_LOAD;
    if (s.file_size > 0 && contents(s).empty())
      return "a segment ends at byte " + std::to_string(s.offset + s.file_size) +
             ", the file at byte " + std::to_string(size_);
  }
  if (!loads) return "it has nothing to load";
  return {};
}

}  // namespace stallscope::code
