// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "code/avx512.h"
#include "code/decode.h"
#include "code/elf_facts.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

std::string text(const nb::bytes& path) { return {path.c_str(), path.size()}; }

// Names out of an ELF file are bytes of any kind.
nb::object name(const std::string& bytes) {
  return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()),
                                        "backslashreplace"));
}

nb::bytes raw(const std::string& bytes) { return nb::bytes(bytes.data(), bytes.size()); }

std::span<const std::uint8_t> span(const nb::bytes& bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.c_str()), bytes.size()};
}

code::ElfFacts elf_facts(const nb::bytes& path) {
  std::string file = text(path);
  return unwrap([&] {
    nb::gil_scoped_release release;
    return code::elf_facts(file);
  }());
}

code::Avx512Report scan_avx512(const nb::bytes& path) {
  std::string file = text(path);
  return unwrap([&] {
    nb::gil_scoped_release release;
    return code::scan_avx512(file);
  }());
}

// Lengths of consecutive instructions; 0 stands for a byte that starts none.
std::vector<std::uint8_t> instruction_lengths(const nb::bytes& bytes) {
  auto left = span(bytes);
  nb::gil_scoped_release release;
  std::vector<std::uint8_t> out;
  while (!left.empty()) {
    std::uint8_t length = code::decode_shape(left).length;
    out.push_back(length);
    left = left.subspan(length ? length : 1);
  }
  return out;
}

void bind_elf(nb::module_& m) {
  using code::Avx512Report;
  using code::ElfFacts;
  nb::class_<ElfFacts>(m, "ElfFacts")
      .def_ro("bits", &ElfFacts::bits)
      .def_ro("machine_name", &ElfFacts::machine_name)
      .def_ro("runs_here", &ElfFacts::runs_here)
      .def_ro("program", &ElfFacts::program)
      .def_ro("is_static", &ElfFacts::is_static)
      .def_ro("stripped", &ElfFacts::stripped)
      .def_ro("damage", &ElfFacts::damage)
      .def_prop_ro("loader", [](const ElfFacts& f) { return raw(f.loader); })
      .def_prop_ro("library_path", [](const ElfFacts& f) { return raw(f.library_path); })
      .def_prop_ro("needed", [](const ElfFacts& f) {
        nb::list out;
        for (const std::string& library : f.needed) out.append(raw(library));
        return out;
      });
  nb::enum_<code::Avx512Verdict>(m, "Avx512Verdict")
      .value("ABSENT", code::Avx512Verdict::kAbsent)
      .value("GUARDED", code::Avx512Verdict::kGuarded)
      .value("UNKNOWN", code::Avx512Verdict::kUnknown)
      .value("NEEDED", code::Avx512Verdict::kNeeded);
  nb::class_<Avx512Report>(m, "Avx512Report")
      .def_ro("verdict", &Avx512Report::verdict)
      .def_ro("address", &Avx512Report::address)
      .def_ro("instruction", &Avx512Report::instruction)
      .def_ro("needed", &Avx512Report::needed)
      .def_ro("guarded", &Avx512Report::guarded)
      .def_ro("variants", &Avx512Report::variants)
      .def_ro("decoded", &Avx512Report::decoded)
      .def_ro("reason", &Avx512Report::reason)
      .def_prop_ro("function", [](const Avx512Report& r) { return name(r.function); });
  m.def("elf_facts", elf_facts, nb::arg("path"), "What to know of an executable; path as bytes.");
  m.def("scan_avx512", scan_avx512, nb::arg("path"),
        "Whether a program's own code needs AVX-512 or AMX; path as bytes.");
}

void bind_decoder(nb::module_& m) {
  using code::Instruction;
  using code::MemoryOperand;
  nb::enum_<code::Flow>(m, "Flow")
      .value("NEXT", code::Flow::kNext)
      .value("JUMP", code::Flow::kJump)
      .value("BRANCH", code::Flow::kBranch)
      .value("CALL", code::Flow::kCall)
      .value("RETURN", code::Flow::kReturn);
  nb::class_<MemoryOperand>(m, "MemoryOperand")
      .def_ro("size", &MemoryOperand::size)
      .def_ro("read", &MemoryOperand::read)
      .def_ro("write", &MemoryOperand::write)
      .def_ro("conditional", &MemoryOperand::conditional)
      .def_ro("hidden", &MemoryOperand::hidden)
      .def_ro("base", &MemoryOperand::base)
      .def_ro("index", &MemoryOperand::index)
      .def_ro("scale", &MemoryOperand::scale)
      .def_ro("displacement", &MemoryOperand::displacement);
  nb::class_<Instruction>(m, "Instruction")
      .def_ro("length", &Instruction::length)
      .def_ro("flow", &Instruction::flow)
      .def_ro("repeats", &Instruction::repeats)
      .def_ro("mnemonic", &Instruction::mnemonic)
      .def_prop_ro("memory", [](const Instruction& i) {
        return std::vector<MemoryOperand>(i.memory().begin(), i.memory().end());
      });
  m.def(
      "decode",
      [](const nb::bytes& bytes, std::uint64_t address) {
        return unwrap(code::decode(span(bytes), Address(address)));
      },
      nb::arg("bytes"), nb::arg("address"), "The instruction at the start of bytes.");
  m.def("instruction_lengths", instruction_lengths, nb::arg("bytes"),
        "Lengths of consecutive instructions; 0 for a byte that starts none.");
}

}  // namespace

void bind_code(nb::module_& m) {
  bind_elf(m);
  bind_decoder(m);
}

}  // namespace stallscope
