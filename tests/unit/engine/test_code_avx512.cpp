// SPDX-License-Identifier: Apache-2.0
// Programs are the running test itself and the system's, and small ELF files made here.
#include <doctest.h>
#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "code/avx512.h"
#include "code/elf_facts.h"
#include "code/functions.h"
#include "code/references.h"

using namespace stallscope;
using namespace stallscope::code;
using Code = std::vector<std::uint8_t>;

namespace {

constexpr std::uint64_t kBase = 0x400000;
const Code kWide = {0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc1};  // vaddps zmm0, zmm0, zmm1

template <typename T>
void append(Code& out, const T& value) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

// A fixed-address program: one executable segment and a symbol for each function, the first one
// being the entry point.
struct Builder {
  Code text;
  std::vector<Elf64_Sym> symbols{Elf64_Sym{}};
  std::string names = std::string(1, '\0');

  static constexpr std::uint64_t kText = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr);

  std::uint64_t next() const { return kBase + kText + text.size(); }
  std::uint64_t function(const std::string& name, const Code& code, int type = STT_FUNC) {
    Elf64_Sym s{};
    s.st_name = static_cast<Elf64_Word>(names.size());
    s.st_info = static_cast<unsigned char>(ELF64_ST_INFO(STB_GLOBAL, type));
    s.st_shndx = 1;
    s.st_value = next();
    s.st_size = code.size();
    names += name + '\0';
    symbols.push_back(s);
    text.insert(text.end(), code.begin(), code.end());
    return s.st_value;
  }

  Code file() const {
    std::uint64_t symbols_at = kText + text.size(), names_at = symbols_at + symbols.size() * 24;
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG "\2\1\1", 7);
    header.e_type = ET_EXEC;
    header.e_machine = EM_X86_64;
    header.e_entry = kBase + kText;
    header.e_phoff = sizeof header;
    header.e_shoff = names_at + names.size();
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 1;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 4;
    Elf64_Phdr load{PT_LOAD, PF_R | PF_X, 0, kBase, kBase, symbols_at, symbols_at, 4096};
    Code out;
    append(out, header);
    append(out, load);
    out.insert(out.end(), text.begin(), text.end());
    for (const Elf64_Sym& s : symbols) append(out, s);
    out.insert(out.end(), names.begin(), names.end());
    append(out, Elf64_Shdr{});
    append(out, Elf64_Shdr{0, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, kBase + kText, kText,
                           text.size(), 0, 0, 16, 0});
    append(out, Elf64_Shdr{0, SHT_SYMTAB, 0, 0, symbols_at, symbols.size() * 24, 3, 0, 8, 24});
    append(out, Elf64_Shdr{0, SHT_STRTAB, 0, 0, names_at, names.size(), 0, 0, 1, 0});
    return out;
  }
};

Code call(std::uint64_t from, std::uint64_t to) {
  Code out{0xe8};
  append(out, static_cast<std::int32_t>(to - from - 5));
  return out;
}

Code operator+(Code a, const Code& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Avx512Report scan(const Builder& program) {
  auto image = ElfImage::from_bytes(program.file());
  REQUIRE(image.ok());
  return scan_avx512(*image);
}

Code read_file(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

const Code kReturn = {0xc3};
const Code kAskCpu = {0x0f, 0xa2};

}  // namespace

TEST_CASE("an unguarded function is needed, with instruction, address and name") {
  Builder program;
  std::uint64_t start = program.next();
  program.function("start", call(start, start + 6) + kReturn);
  program.function("work", Code{0x90} + kWide + kReturn);
  Avx512Report report = scan(program);
  CHECK(report.verdict == Avx512Verdict::kNeeded);
  CHECK(report.function == "work");
  CHECK(report.address == start + 7);
  CHECK(report.instruction == "vaddps zmm0, zmm0, zmm1");
  CHECK(report.needed == 1);
}

TEST_CASE("what a resolver returns is a variant, and so is what only the variant calls") {
  Builder program;
  std::uint64_t start = program.next();
  program.function("start", kReturn);
  std::uint64_t resolver = start + 1, fast = resolver + 6, part = fast + 12;
  Code choose{0xb8};  // mov eax, fast
  append(choose, static_cast<std::uint32_t>(fast));
  program.function("resolver", choose + kReturn, STT_GNU_IFUNC);
  program.function("fast", kWide + call(fast + 6, part) + kReturn);
  program.function("part", kWide + kReturn);
  Avx512Report report = scan(program);
  CHECK(report.verdict == Avx512Verdict::kAbsent);
  CHECK(report.variants == 2);
  CHECK(report.instruction.empty());
}

TEST_CASE("a function that also others call is no variant's own") {
  Builder program;
  std::uint64_t start = program.next(), resolver = start + 6, fast = resolver + 6, part = fast + 6;
  program.function("start", call(start, part) + kReturn);
  Code choose{0xb8};
  append(choose, static_cast<std::uint32_t>(fast));
  program.function("resolver", choose + kReturn, STT_GNU_IFUNC);
  program.function("fast", call(fast, part) + kReturn);
  program.function("part", kWide + kReturn);
  CHECK(scan(program).verdict == Avx512Verdict::kNeeded);
}

TEST_CASE("a caller that asks the processor guards what it calls") {
  Builder program;
  std::uint64_t start = program.next();
  program.function("start", kAskCpu + call(start + 2, start + 8) + kReturn);
  program.function("work", kWide + kReturn);
  Avx512Report report = scan(program);
  CHECK(report.verdict == Avx512Verdict::kGuarded);
  CHECK(report.function == "work");
  CHECK_FALSE(report.reason.empty());
}

TEST_CASE("a name counts only in a program that asks the processor") {
  for (bool asks : {false, true}) {
    Builder program;
    std::uint64_t start = program.next();
    program.function("start", call(start, start + 6) + kReturn);
    program.function("work_avx512", kWide + kReturn);
    if (asks) program.function("detect", kAskCpu + kReturn);
    CHECK(scan(program).verdict == (asks ? Avx512Verdict::kGuarded : Avx512Verdict::kNeeded));
  }
}

TEST_CASE("bytes outside functions and code that nothing refers to do not refuse a program") {
  Builder dead;
  dead.function("start", kReturn);
  dead.function("unused", kWide + kReturn);
  CHECK(scan(dead).verdict == Avx512Verdict::kGuarded);
  Builder gap;
  gap.function("start", kReturn);
  gap.text = gap.text + kWide;
  CHECK(scan(gap).verdict == Avx512Verdict::kGuarded);
}

TEST_CASE("the limit on work gives an unknown verdict") {
  Builder program;
  std::uint64_t start = program.next();
  program.function("start", call(start, start + 6) + kReturn);
  program.function("work", Code(1000, 0x90) + kWide + kReturn);
  auto image = ElfImage::from_bytes(program.file());
  REQUIRE(image.ok());
  Avx512Report report = scan_avx512(*image, 100);
  CHECK(report.verdict == Avx512Verdict::kUnknown);
  CHECK(report.decoded <= 100);
}

TEST_CASE("this test program and the system's are clean") {
  for (const char* path : {"/proc/self/exe", "/bin/ls", "/bin/sh"}) {
    auto report = scan_avx512(std::string(path));
    REQUIRE(report.ok());
    CHECK(report->verdict != Avx512Verdict::kNeeded);
    auto facts = elf_facts(path);
    REQUIRE(facts.ok());
    CHECK(facts->runs_here);
    CHECK(facts->program);
    CHECK(facts->damage.empty());
  }
}

TEST_CASE("stripped programs have function ranges from their unwind tables") {
  auto image = ElfImage::open("/bin/ls");
  REQUIRE(image.ok());
  Functions functions(*image);
  std::size_t known = 0;
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < functions.size(); ++i) {
    CHECK(functions[i].start >= end);
    end = functions[i].end;
    known += !functions[i].gap;
    CHECK(functions.find(functions[i].start) == i);
    CHECK(functions.find(functions[i].end - 1) == i);
  }
  CHECK(known > 200);
}

TEST_CASE("files that are no programs are errors") {
  CHECK_FALSE(elf_facts("/no/such/file").ok());
  CHECK_FALSE(elf_facts("/etc/passwd").ok());
  CHECK_FALSE(elf_facts("/").ok());
  CHECK_FALSE(scan_avx512(std::string("/etc/passwd")).ok());
  CHECK_FALSE(ElfImage::from_bytes({}).ok());
}

TEST_CASE("mutated files lead to an answer or an error, never outside the file") {
  Builder small;
  std::uint64_t start = small.next();
  small.function("start", kAskCpu + call(start + 2, start + 8) + kReturn);
  small.function("work", kWide + kReturn);
  small.function("resolver", Code{0xb8, 0, 0, 0x40, 0} + kReturn, STT_GNU_IFUNC);
  std::mt19937_64 random(11);
  for (const Code& original : {small.file(), read_file("/bin/true")}) {
    REQUIRE(original.size() > 64);
    for (int n = 0; n < 1500; ++n) {
      Code bytes = original;
      for (int k = 0, changes = 1 + random() % 8; k < changes; ++k) {
        // Half of the changes hit the headers at either end, where structure is.
        std::uint64_t at = random() % bytes.size();
        if (random() % 2) at = random() % std::min<std::size_t>(bytes.size(), 1024);
        if (random() % 4 == 0)
          at = bytes.size() - 1 - random() % std::min<std::size_t>(bytes.size(), 2048);
        bytes[at] = static_cast<std::uint8_t>(random() % 3 ? random() : 0xff);
      }
      if (random() % 8 == 0) bytes.resize(random() % bytes.size());
      auto image = ElfImage::from_bytes(std::move(bytes));
      if (!image) continue;
      image->damage();
      for (const Dynamic& d : image->dynamic()) string_at(image->dynamic_strings(), d.value);
      CHECK(scan_avx512(*image, 200'000).decoded <= 200'000);
    }
  }
}
