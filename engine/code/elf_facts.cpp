// SPDX-License-Identifier: Apache-2.0
#include "code/elf_facts.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "code/elf_image.h"

namespace stallscope::code {
namespace {

constexpr std::size_t kMostLibraries = 4096;

struct MachineName {
  std::uint16_t machine;
  const char* name;
};

constexpr MachineName kMachines[] = {
    {EM_386, "i386"},
    {EM_X86_64, "x86-64"},
    {EM_AARCH64, "AArch64"},
    {EM_ARM, "ARM"},
    {EM_RISCV, "RISC-V"},
    {EM_PPC64, "PowerPC64"},
    {EM_PPC, "PowerPC"},
    {EM_S390, "s390"},
    {EM_MIPS, "MIPS"},
    {EM_SPARC, "SPARC"},
    {EM_SPARCV9, "SPARC64"},
    {EM_IA_64, "Itanium"},
    {EM_LOONGARCH, "LoongArch"},
    {EM_68K, "m68k"},
    {EM_SH, "SuperH"},
    {EM_PARISC, "PA-RISC"},
    {EM_ALPHA, "Alpha"},
    {EM_BPF, "BPF"},
};

std::string machine_name(std::uint16_t machine) {
  for (const MachineName& entry : kMachines)
    if (entry.machine == machine) return entry.name;
  return "machine " + std::to_string(machine);
}

struct Head {
  std::uint8_t bytes[20] = {};  // up to and with e_machine, alike in all classes
  std::size_t size = 0;
};

Result<Head> read_head(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Error{"cannot read " + path, std::strerror(errno), ""};
  Head head;
  ssize_t got = ::read(fd, head.bytes, sizeof head.bytes);
  ::close(fd);
  if (got < 0) return Error{"cannot read " + path, std::strerror(errno), ""};
  head.size = static_cast<std::size_t>(got);
  if (head.size < SELFMAG || std::memcmp(head.bytes, ELFMAG, SELFMAG) != 0)
    return Error{path + " is not an ELF file", "", ""};
  return head;
}

std::uint16_t machine_of(const Head& head) {
  bool big = head.bytes[EI_DATA] == ELFDATA2MSB;
  unsigned low = head.bytes[big ? 19 : 18], high = head.bytes[big ? 18 : 19];
  return static_cast<std::uint16_t>(low | (high << 8));
}

void add_image_facts(const ElfImage& image, ElfFacts& facts) {
  facts.damage = image.damage();
  facts.program = image.type() == ET_EXEC || (image.type() == ET_DYN && image.entry() != 0);
  if (const Segment* s = image.segment(PT_INTERP)) {
    Bytes text = image.contents(*s);
    facts.loader.assign(text.begin(), std::find(text.begin(), text.end(), 0));
  }
  facts.is_static = facts.loader.empty();
  facts.stripped = true;
  for (const Section& s : image.sections())
    if (s.type == SHT_SYMTAB) facts.stripped = false;
  std::string rpath, runpath;
  Bytes strings = image.dynamic_strings();
  for (const Dynamic& d : image.dynamic()) {
    if (d.tag == DT_NEEDED && facts.needed.size() < kMostLibraries)
      facts.needed.emplace_back(string_at(strings, d.value));
    if (d.tag == DT_RPATH) rpath = string_at(strings, d.value);
    if (d.tag == DT_RUNPATH) runpath = string_at(strings, d.value);
  }
  facts.library_path = runpath.empty() ? rpath : runpath;
}

}  // namespace

Result<ElfFacts> elf_facts(const std::string& path) {
  auto head = read_head(path);
  if (!head) return head.error();
  ElfFacts facts;
  if (head->size < sizeof head->bytes) {
    facts.damage = "the file ends at byte " + std::to_string(head->size) + ", inside its header";
    return facts;
  }
  std::uint8_t elf_class = head->bytes[EI_CLASS];
  facts.bits = elf_class == ELFCLASS64 ? 64 : elf_class == ELFCLASS32 ? 32 : 0;
  facts.machine = machine_of(*head);
  facts.machine_name = machine_name(facts.machine);
  if (facts.bits == 0) facts.damage = "its class is neither 32-bit nor 64-bit";
  facts.runs_here =
      facts.bits == 64 && facts.machine == EM_X86_64 && head->bytes[EI_DATA] == ELFDATA2LSB;
  if (!facts.runs_here) return facts;
  auto image = ElfImage::open(path);
  if (image)
    add_image_facts(*image, facts);
  else
    facts.damage = image.error().why;
  return facts;
}

}  // namespace stallscope::code
