// SPDX-License-Identifier: Apache-2.0
// What memory holds. A guess keeps its file's symbols alive; calls on one Types come one at a time.
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <mutex>

#include "bindings.h"
#include "modules.h"
#include "types/inference.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

using types::Guess;
using UseRow = std::tuple<std::uint64_t, bool, std::uint32_t, std::uint64_t>;

struct Types {
  symbols::SymbolCache cache;
  types::Inference inference;
  std::mutex one_at_a_time;

  Types(std::vector<types::Module> modules, std::vector<std::string> debug_folders)
      : cache(std::move(debug_folders)), inference(std::move(modules), cache) {}
};

void make(Types* self, const std::vector<ModuleWords>& rows, std::vector<std::string> folders) {
  new (self) Types(modules_of(rows), std::move(folders));
}

nb::object guess_of(const Guess& guess) {
  if (guess.symbols == nullptr) return nb::none();
  return nb::cast(guess);
}

nb::object infer(Types& self, const std::vector<UseRow>& uses, std::vector<std::uint64_t> calls,
                 std::uint64_t largest) {
  types::Blocks blocks;
  for (const auto& [address, writes, size, times] : uses)
    blocks.uses.push_back({address, writes, size, times});
  blocks.calls = std::move(calls);
  blocks.largest = largest;
  Guess guess;
  {
    nb::gil_scoped_release release;
    std::lock_guard lock(self.one_at_a_time);
    guess = self.inference.infer(blocks);
  }
  return guess_of(guess);
}

nb::object variable(Types& self, std::uint64_t address) {
  std::lock_guard lock(self.one_at_a_time);
  return guess_of(self.inference.variable(address));
}

nb::list fields(Types& self, const Guess& guess, const std::vector<std::uint64_t>& offsets) {
  std::lock_guard lock(self.one_at_a_time);
  symbols::TypeTable& table = *guess.symbols->types();
  const bool repeats = types::element_size(guess) != 0;
  const symbols::TypeId type = repeats ? table.element(guess.type) : guess.type;
  nb::list rows;
  for (std::uint64_t offset : offsets) {
    const symbols::Field field = table.field(type, offset);
    rows.append(nb::make_tuple(field.path, field.offset, field.size,
                               guess.symbols->text(table.get(field.type).name)));
  }
  return rows;
}

const symbols::Type& type_of(const Guess& guess) { return guess.symbols->types()->get(guess.type); }

}  // namespace

void bind_types(nb::module_& m) {
  nb::class_<Guess>(m, "Guess", "A type, and how sure it is.")
      .def_prop_ro("name", [](const Guess& g) { return g.symbols->text(type_of(g).name); })
      .def_prop_ro("size", [](const Guess& g) { return type_of(g).size; })
      .def_prop_ro("element_size", &types::element_size,
                   "bytes after which its parts repeat; 0 when it has no parts")
      .def_ro("confidence", &Guess::confidence)
      .def_ro("voted", &Guess::voted)
      .def_ro("is_allocated", &Guess::is_allocated);
  nb::class_<Types>(m, "Types", "The types of what a process has in memory.")
      .def("__init__", &make, nb::arg("modules"), nb::arg("debug_folders") = nb::list())
      .def("infer", &infer, nb::arg("uses"), nb::arg("calls"), nb::arg("largest"),
           nb::keep_alive<0, 1>(),
           "Of heap blocks, by (address, writes, size, times) of the operations that use them; "
           "None when nothing is known.")
      .def("variable", &variable, nb::arg("address"), nb::keep_alive<0, 1>())
      .def("fields", &fields, nb::arg("guess"), nb::arg("offsets"),
           "(path, offset, size, type) of what lies at each offset of the type, or of its elements "
           "where these have parts.");
}

}  // namespace stallscope
