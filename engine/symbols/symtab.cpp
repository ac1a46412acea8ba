// SPDX-License-Identifier: Apache-2.0
#include "symbols/symtab.h"

#include <gelf.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace stallscope::symbols {
namespace {

// Libraries give a function several names: malloc is also __libc_malloc. The name that a program
// calls is global and has the fewest leading underscores. Labels without a type come last.
std::uint8_t order_of(const GElf_Sym& symbol, const char* name) {
  unsigned underscores = std::min<unsigned>(static_cast<unsigned>(std::strspn(name, "_")), 15);
  bool is_mangled = name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
  unsigned order = is_mangled ? 0 : underscores;
  if (GELF_ST_BIND(symbol.st_info) == STB_LOCAL) order += 16;
  if (GELF_ST_TYPE(symbol.st_info) == STT_NOTYPE) order += 32;
  return static_cast<std::uint8_t>(order);
}

bool comes_first(const Symbol& a, const Symbol& b) {
  if (a.address != b.address) return a.address < b.address;
  if ((a.size == 0) != (b.size == 0)) return b.size == 0;
  if (a.order != b.order) return a.order < b.order;
  return std::strcmp(a.name, b.name) < 0;
}

// Sorted, and of each address only the best name.
void keep_best(std::vector<Symbol>& symbols) {
  std::sort(symbols.begin(), symbols.end(), comes_first);
  auto same = [](const Symbol& a, const Symbol& b) { return a.address == b.address; };
  symbols.erase(std::unique(symbols.begin(), symbols.end(), same), symbols.end());
  symbols.shrink_to_fit();
}

// Mapping symbols of AArch64 and assembler-local labels name nothing.
bool is_label(const char* name) { return name[0] == '$' || std::strncmp(name, ".L", 2) == 0; }

}  // namespace

std::string plain_name(const Symbol& symbol) {
  return std::string(symbol.name, std::strcspn(symbol.name, "@"));
}

SymbolTable::SymbolTable(const Image& image, const Image* debug, const Limits& limits) {
  if (debug != nullptr) read(*debug, limits);
  read(image, limits);
  keep_best(functions_);
  keep_best(objects_);
  index_functions(image);
}

void SymbolTable::read(const Image& image, const Limits& limits) {
  Elf_Scn* section = nullptr;
  std::uint32_t seen = 0;
  while ((section = elf_nextscn(image.elf(), section)) != nullptr && seen++ < limits.sections) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    if (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM) {
      read_section(image, section, limits);
    }
  }
}

void SymbolTable::read_section(const Image& image, Elf_Scn* section, const Limits& limits) {
  GElf_Shdr header;
  Elf_Data* data = elf_getdata(section, nullptr);
  if (data == nullptr || gelf_getshdr(section, &header) == nullptr) return;
  std::size_t entry = gelf_fsize(image.elf(), ELF_T_SYM, 1, EV_CURRENT);
  std::size_t count = std::min<std::size_t>(entry ? data->d_size / entry : 0, INT32_MAX);
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Sym symbol;
    if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) return;
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS) continue;
    int type = GELF_ST_TYPE(symbol.st_info);
    bool is_code = type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
    if (is_code && !image.is_code(symbol.st_value)) continue;
    bool is_object = type == STT_OBJECT && symbol.st_size > 0 && image.is_loaded(symbol.st_value);
    if (!is_code && !is_object) continue;
    const char* name = elf_strptr(image.elf(), header.sh_link, symbol.st_name);
    if (name == nullptr || name[0] == 0 || name[0] == '@' || is_label(name)) continue;
    if (functions_.size() + objects_.size() >= limits.symbols) {
      cut_short_ = true;
      return;
    }
    (is_code ? functions_ : objects_)
        .push_back({symbol.st_value, symbol.st_size, name, order_of(symbol, name)});
  }
}

void SymbolTable::index_functions(const Image& image) {
  std::vector<Interval> intervals;
  intervals.reserve(functions_.size());
  for (std::uint32_t i = 0; i < functions_.size(); ++i) {
    std::uint64_t low = functions_[i].address;
    std::uint64_t size = functions_[i].size;
    // Hand-written code often has no size: it reaches to the next symbol or the segment's end.
    std::uint32_t priority = size != 0 ? 1 : 0;
    std::uint64_t high = low + size;
    if (size == 0) {
      for (const Segment& segment : image.facts().segments) {
        if (segment.executable && low - segment.address < segment.memory_size) {
          high = segment.address + segment.memory_size;
        }
      }
      if (i + 1 < functions_.size()) high = std::min(high, functions_[i + 1].address);
    }
    intervals.push_back({low, std::max(low, high), priority, i});
  }
  index_ = IntervalMap::build(std::move(intervals));
}

const Symbol* SymbolTable::object_at(std::uint64_t address) const {
  auto found = std::lower_bound(objects_.begin(), objects_.end(), address,
                                [](const Symbol& s, std::uint64_t a) { return s.address < a; });
  return found != objects_.end() && found->address == address ? &*found : nullptr;
}

CodeRange SymbolTable::allocator() const {
  constexpr std::string_view kFamily[] = {
      "malloc",      "free",        "calloc",         "realloc",
      "malloc_info", "malloc_trim", "posix_memalign", "__default_morecore"};
  std::size_t first = functions_.size(), last = 0;
  bool has_malloc = false;
  for (std::size_t i = 0; i < functions_.size(); ++i) {
    const std::string_view name(functions_[i].name, std::strcspn(functions_[i].name, "@"));
    if (!functions_[i].is_global() || std::ranges::find(kFamily, name) == std::end(kFamily))
      continue;
    has_malloc |= name == kFamily[0];
    first = std::min(first, i);
    last = i;
  }
  if (!has_malloc) return {};
  while (first > 0 && !functions_[first - 1].is_global()) --first;
  const std::uint64_t end = functions_[last].address + functions_[last].size;
  while (last + 1 < functions_.size() && !functions_[last + 1].is_global()) ++last;
  const std::uint64_t begin =
      first > 0 ? functions_[first - 1].address + functions_[first - 1].size : 0;
  return {begin, last + 1 < functions_.size() ? functions_[last + 1].address : end};
}

const Symbol* SymbolTable::function_at(std::uint64_t address) const {
  std::uint32_t found = index_.find(address);
  return found == kNothing ? nullptr : &functions_[found];
}

}  // namespace stallscope::symbols
