// SPDX-License-Identifier: Apache-2.0
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <mutex>

#include "bindings.h"
#include "columns.h"
#include "symbols/debug_files.h"
#include "symbols/symbol_cache.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

using symbols::Frame;
using symbols::Symbols;
using symbols::Variable;

// The engine's object is for one thread, and calls below release the GIL.
struct Guarded {
  std::unique_ptr<Symbols> symbols;
  std::mutex one_at_a_time;
};

using Lock = std::lock_guard<std::mutex>;

void open(Guarded* self, const std::string& path, std::vector<std::string> debug_folders,
          const nb::bytes& build_id) {
  symbols::OpenOptions options{{build_id.c_str(), build_id.size()}, std::move(debug_folders), {}};
  auto opened = [&] {
    nb::gil_scoped_release release;
    return Symbols::open(path, std::move(options), nullptr);
  }();
  new (self) Guarded{unwrap(std::move(opened)), {}};
}

nb::list frames(Guarded& self, std::uint64_t address) {
  std::vector<Frame> found;
  {
    nb::gil_scoped_release release;
    Lock lock(self.one_at_a_time);
    found = self.symbols->frames_at(address);
  }
  nb::list rows;
  for (const Frame& frame : found) {
    rows.append(nb::make_tuple(self.symbols->text(frame.function), self.symbols->text(frame.file),
                               frame.line, frame.inlined));
  }
  return rows;
}

// Locations in the order of the addresses; frames in the order of `first_frame`, which has one
// entry for each location and one more.
struct Resolved {
  std::vector<std::uint32_t> location;
  std::vector<std::uint32_t> first_frame{0};
  std::vector<std::uint32_t> function;
  std::vector<std::uint32_t> file;
  std::vector<std::uint32_t> line;
  std::vector<std::uint8_t> inlined;

  template <typename Visit>
  void for_each_column(Visit visit) {
    visit("location", location);
    visit("first_frame", first_frame);
    visit("function", function);
    visit("file", file);
    visit("line", line);
    visit("inlined", inlined);
  }
};

std::unique_ptr<Resolved> resolve_columns(Symbols& symbols,
                                          std::span<const std::uint64_t> addresses) {
  auto columns = std::make_unique<Resolved>();
  columns->location = symbols.resolve(addresses);
  for (symbols::LocationId id = 0; id < symbols.locations(); ++id) {
    for (const Frame& frame : symbols.frames(id)) {
      columns->function.push_back(frame.function);
      columns->file.push_back(frame.file);
      columns->line.push_back(frame.line);
      columns->inlined.push_back(frame.inlined);
    }
    columns->first_frame.push_back(static_cast<std::uint32_t>(columns->function.size()));
  }
  return columns;
}

nb::dict resolve(Guarded& self, const std::vector<std::uint64_t>& addresses) {
  std::unique_ptr<Resolved> columns;
  std::vector<std::string> texts;
  {
    nb::gil_scoped_release release;
    Lock lock(self.one_at_a_time);
    columns = resolve_columns(*self.symbols, addresses);
    for (symbols::StringId id = 0; id < self.symbols->strings().size(); ++id) {
      texts.emplace_back(self.symbols->text(id));
    }
  }
  nb::dict result = columns_of(std::move(columns));
  result["strings"] = nb::cast(texts);
  return result;
}

nb::list variables(Guarded& self) {
  const std::vector<Variable>* found = nullptr;
  {
    nb::gil_scoped_release release;
    Lock lock(self.one_at_a_time);
    found = &self.symbols->variables();
  }
  Lock lock(self.one_at_a_time);
  nb::list rows;
  for (const Variable& v : *found) {
    rows.append(nb::make_tuple(self.symbols->text(v.name), v.address, v.size,
                               self.symbols->text(v.type), self.symbols->text(v.file), v.line));
  }
  return rows;
}

const char* kind_of(symbols::TypeKind kind) {
  constexpr const char* kNames[] = {"none", "scalar", "pointer", "struct", "union", "array"};
  return kNames[static_cast<int>(kind)];
}

nb::list layouts(Guarded& self) {
  Lock lock(self.one_at_a_time);
  nb::list rows;
  symbols::TypeTable* types = self.symbols->types();
  if (types == nullptr) return rows;
  for (symbols::TypeId id : types->all()) {
    const symbols::Type& type = types->get(id);
    nb::list members;
    for (const symbols::Member& m : type.members)
      members.append(nb::make_tuple(self.symbols->text(m.name),
                                    self.symbols->text(types->get(m.type).name), m.offset, m.size,
                                    m.bit_offset, m.bit_size, m.is_base));
    rows.append(
        nb::make_tuple(self.symbols->text(type.name), kind_of(type.kind), type.size, members));
  }
  return rows;
}

// By the name that layouts() gives; none when there is no such type.
nb::object field(Guarded& self, const std::string& name, std::uint64_t offset) {
  Lock lock(self.one_at_a_time);
  symbols::TypeTable* types = self.symbols->types();
  if (types == nullptr) return nb::none();
  for (symbols::TypeId id : types->all()) {
    if (self.symbols->text(types->get(id).name) != name) continue;
    const symbols::Field found = types->field(id, offset);
    return nb::make_tuple(found.path, found.offset, found.size, found.is_padding);
  }
  return nb::none();
}

nb::list segments(const Guarded& self) {
  nb::list rows;
  for (const symbols::Segment& s : self.symbols->facts().segments) {
    rows.append(
        nb::make_tuple(s.address, s.offset, s.file_size, s.memory_size, s.executable, s.writable));
  }
  return rows;
}

}  // namespace

void bind_symbols(nb::module_& m) {
  nb::class_<symbols::SymbolCache>(m, "SymbolCache")
      .def(nb::init<std::vector<std::string>>(), nb::arg("debug_folders") = nb::list());
  nb::class_<Guarded>(m, "Symbols", "Names for the addresses of one ELF file.")
      .def("__init__", &open, nb::arg("path"), nb::arg("debug_folders") = nb::list(),
           nb::arg("build_id") = nb::bytes("", 0))
      .def_prop_ro(
          "build_id",
          [](const Guarded& s) { return symbols::hexadecimal(s.symbols->facts().build_id); },
          "hexadecimal; empty when it has none")
      .def_prop_ro("debug_path", [](const Guarded& s) { return s.symbols->debug_path(); })
      .def_prop_ro("has_dwarf", [](const Guarded& s) { return s.symbols->has_dwarf(); })
      .def_prop_ro("has_symtab", [](const Guarded& s) { return s.symbols->facts().has_symtab; })
      .def_prop_ro("machine", [](const Guarded& s) { return s.symbols->facts().machine; })
      .def_prop_ro("type", [](const Guarded& s) { return s.symbols->facts().type; })
      .def_prop_ro("bits", [](const Guarded& s) { return s.symbols->facts().bits; })
      .def_prop_ro(
          "interpreter",
          [](const Guarded& s) { return symbols::clean_text(s.symbols->facts().interpreter); })
      .def_prop_ro("segments", &segments,
                   "(address, offset, file_size, memory_size, executable, writable)")
      .def_prop_ro("shortfall", [](const Guarded& s) { return s.symbols->shortfall(); })
      .def("frames", &frames, nb::arg("address"),
           "(function, file, line, inlined), innermost first")
      .def("resolve", &resolve, nb::arg("addresses"),
           "location by address; first_frame by location; function, file, line, inlined by frame; "
           "function and file index strings")
      .def("layouts", &layouts,
           "(name, kind, size, [(name, type, offset, size, bit_offset, bit_size, is_base)]) of "
           "every struct, class and union that is defined under a name")
      .def("field", &field, nb::arg("type"), nb::arg("offset"),
           "(path, offset, size, is_padding) of what a type of layouts() has at an offset")
      .def("variables", &variables, "(name, address, size, type, file, line), by address");
}

}  // namespace stallscope
