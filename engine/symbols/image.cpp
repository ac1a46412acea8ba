// SPDX-License-Identifier: Apache-2.0
#include "symbols/image.h"

#include <elfutils/libdwelf.h>
#include <gelf.h>

#include <algorithm>
#include <cstring>

namespace stallscope::symbols {
namespace {

Error not_readable(const std::string& path, std::string why) {
  return {"cannot read symbols of " + path, std::move(why), ""};
}

std::uint64_t decompressed_size(Elf_Scn* section, const std::string& name) {
  GElf_Shdr header;
  if (gelf_getshdr(section, &header) == nullptr || header.sh_type == SHT_NOBITS) return 0;
  if ((header.sh_flags & SHF_COMPRESSED) != 0) {
    GElf_Chdr compressed;
    return gelf_getchdr(section, &compressed) ? compressed.ch_size : 0;
  }
  if (name.starts_with(".zdebug")) {
    ssize_t size = dwelf_scn_gnu_compressed_size(section);
    return size > 0 ? static_cast<std::uint64_t>(size) : 0;
  }
  return 0;
}

}  // namespace

Result<std::unique_ptr<Image>> Image::open(const std::string& path, const Limits& limits) {
  auto bytes = FileBytes::read(path, limits);
  if (!bytes) return bytes.error();
  return make(std::move(*bytes), path, limits);
}

Result<std::unique_ptr<Image>> Image::from_bytes(std::span<const std::uint8_t> bytes,
                                                 const std::string& name, const Limits& limits) {
  return make(FileBytes::copy(bytes), name, limits);
}

Result<std::unique_ptr<Image>> Image::make(FileBytes bytes, const std::string& path,
                                           const Limits& limits) {
  elf_version(EV_CURRENT);
  std::unique_ptr<Image> image(new Image(std::move(bytes), path));
  auto data = image->bytes_.span();
  if (data.size() < EI_NIDENT || std::memcmp(data.data(), ELFMAG, SELFMAG) != 0) {
    return not_readable(path, "it is not an ELF file");
  }
  image->elf_ = elf_memory(reinterpret_cast<char*>(data.data()), data.size());
  GElf_Ehdr header;
  if (image->elf_ == nullptr || elf_kind(image->elf_) != ELF_K_ELF ||
      gelf_getehdr(image->elf_, &header) == nullptr) {
    return not_readable(path, "its ELF header is damaged");
  }
  Facts& facts = image->facts_;
  facts.machine = header.e_machine;
  facts.type = header.e_type;
  facts.bits = header.e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
  facts.little_endian = header.e_ident[EI_DATA] == ELFDATA2LSB;
  image->read_segments(limits);
  image->read_sections(limits);
  const void* id = nullptr;
  ssize_t length = dwelf_elf_gnu_build_id(image->elf_, &id);
  if (length > 0 && length <= 64) {
    facts.build_id.assign(static_cast<const char*>(id), static_cast<std::size_t>(length));
  }
  return image;
}

Image::~Image() {
  if (elf_ != nullptr) elf_end(elf_);
}

void Image::read_segments(const Limits& limits) {
  std::size_t count = 0;
  if (elf_getphdrnum(elf_, &count) != 0) return;
  count = std::min<std::size_t>(count, limits.segments);
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf_, static_cast<int>(i), &header) == nullptr) break;
    if (header.p_type == PT_LOAD) {
      facts_.segments.push_back({header.p_vaddr, header.p_offset, header.p_filesz, header.p_memsz,
                                 (header.p_flags & PF_X) != 0, (header.p_flags & PF_W) != 0});
    }
    auto data = bytes_.span();
    if (header.p_type == PT_INTERP && header.p_offset < data.size()) {
      auto rest = data.subspan(header.p_offset);
      std::size_t size = std::min<std::uint64_t>({rest.size(), header.p_filesz, 4096});
      const char* text = reinterpret_cast<const char*>(rest.data());
      facts_.interpreter.assign(text, strnlen(text, size));
    }
  }
}

void Image::read_sections(const Limits& limits) {
  std::size_t names = 0;
  if (elf_getshdrstrndx(elf_, &names) != 0) return;
  Elf_Scn* section = nullptr;
  while ((section = elf_nextscn(elf_, section)) != nullptr) {
    if (sections_.size() >= limits.sections) break;
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    const char* name = elf_strptr(elf_, names, header.sh_name);
    if (name == nullptr) continue;
    bool filled = header.sh_type != SHT_NOBITS && header.sh_size > 0;
    sections_.push_back({name, section});
    bool is_thread_local = (header.sh_flags & SHF_TLS) != 0;
    if ((header.sh_flags & SHF_ALLOC) != 0 && !is_thread_local && header.sh_size > 0) {
      loaded_.push_back({header.sh_addr, header.sh_addr + header.sh_size});
    }
    if (header.sh_type == SHT_SYMTAB && filled) facts_.has_symtab = true;
    const std::string& known = sections_.back().name;
    if (filled && (known == ".debug_info" || known == ".zdebug_info")) facts_.has_dwarf = true;
    if (filled && known == ".gnu_debuglink") read_debug_link(section);
  }
  order_loaded();
}

void Image::order_loaded() {
  std::erase_if(loaded_, [](const Range& range) { return range.high < range.low; });
  std::sort(loaded_.begin(), loaded_.end(),
            [](const Range& a, const Range& b) { return a.low < b.low; });
  std::vector<Range> merged;
  for (const Range& range : loaded_) {
    if (!merged.empty() && range.low <= merged.back().high) {
      merged.back().high = std::max(merged.back().high, range.high);
    } else {
      merged.push_back(range);
    }
  }
  loaded_ = std::move(merged);
}

// A file name, zero padding to a multiple of four, and the debug file's CRC-32.
void Image::read_debug_link(Elf_Scn* section) {
  Elf_Data* data = elf_rawdata(section, nullptr);
  if (data == nullptr || data->d_buf == nullptr || data->d_size < 8) return;
  const char* text = static_cast<const char*>(data->d_buf);
  std::size_t length = strnlen(text, data->d_size);
  std::size_t crc_at = (length + 4) & ~std::size_t{3};
  if (crc_at + 4 > data->d_size) return;
  facts_.debug_link.assign(text, length);
  std::memcpy(&facts_.debug_link_crc, text + crc_at, 4);
}

std::span<std::uint8_t> Image::section(std::string_view name) const {
  std::string old_compressed = name.starts_with(".debug") ? ".z" + std::string(name.substr(1)) : "";
  for (const Section& section : sections_) {
    bool is_old = !old_compressed.empty() && section.name == old_compressed;
    if (section.name != name && !is_old) continue;
    GElf_Shdr header;
    if (gelf_getshdr(section.handle, &header) == nullptr || header.sh_type == SHT_NOBITS) continue;
    if ((header.sh_flags & SHF_COMPRESSED) != 0 && elf_compress(section.handle, 0, 0) < 0) continue;
    // Fails when libdw has decompressed it before, which is as well.
    if (is_old) elf_compress_gnu(section.handle, 0, 0);
    Elf_Data* data = elf_rawdata(section.handle, nullptr);
    if (data == nullptr || data->d_buf == nullptr) continue;
    return {static_cast<std::uint8_t*>(data->d_buf), data->d_size};
  }
  return {};
}

LoadedBytes Image::loaded_section(std::string_view name) const {
  for (const Section& section : sections_) {
    GElf_Shdr header;
    if (section.name == name && gelf_getshdr(section.handle, &header) != nullptr)
      return {this->section(name), header.sh_addr};
  }
  return {};
}

bool Image::decompresses_within(std::uint64_t limit) const {
  std::uint64_t total = 0;
  for (const Section& section : sections_) {
    std::uint64_t size = decompressed_size(section.handle, section.name);
    if (size > limit - total) return false;
    total += size;
  }
  return true;
}

bool Image::is_loaded(std::uint64_t address) const {
  if (loaded_.empty()) return true;
  auto after =
      std::upper_bound(loaded_.begin(), loaded_.end(), address,
                       [](std::uint64_t value, const Range& range) { return value < range.low; });
  return after != loaded_.begin() && address < (after - 1)->high;
}

bool Image::is_code(std::uint64_t address) const {
  if (facts_.segments.empty()) return true;
  return std::any_of(facts_.segments.begin(), facts_.segments.end(), [&](const Segment& segment) {
    return segment.executable && address - segment.address < segment.memory_size;
  });
}

}  // namespace stallscope::symbols
