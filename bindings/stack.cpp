// SPDX-License-Identifier: Apache-2.0
// Arrays of page numbers in (anything with a buffer or DLPack: NumPy, Arrow), arrays of counts out.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <span>
#include <vector>

#include "bindings.h"
#include "columns.h"
#include "stack/lru_stack.h"
#include "stack/replacement.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stallscope {
namespace {

using stack::LruStack;
using stack::Replacement;
template <typename T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Pages = Array<std::uint64_t>;

template <typename T>
std::span<const T> span_of(const Array<T>& array) {
  return {array.data(), array.size()};
}

template <typename T>
nb::object array_of(std::vector<T> values) {
  auto kept = std::make_unique<std::vector<T>>(std::move(values));
  const std::vector<T>& rows = *kept;
  nb::capsule owner(kept.release(),
                    [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return view_of(rows.data(), rows.size(), owner);
}

template <typename Work>
auto without_gil(Work work) {
  nb::gil_scoped_release release;
  return work();
}

nb::object distances(LruStack& stack, const Pages& pages) {
  std::vector<std::uint32_t> column(pages.size());
  unwrap(without_gil([&] { return stack.append(span_of(pages), column.data()); }));
  return array_of(std::move(column));
}

void bind_lru_stack(nb::module_& m) {
  nb::class_<LruStack>(m, "LruStack", "The LRU stack over every page ever seen, and its curve.")
      .def(nb::init<std::uint32_t>(), "history"_a = 16)
      .def("append",
           [](LruStack& stack, const Pages& pages) {
             unwrap(without_gil([&] { return stack.append(span_of(pages)); }));
           })
      .def("distances", &distances, "Appends, and says each reference's reuse distance.")
      .def("curve", [](const LruStack& stack) { return array_of(stack.curve()); })
      .def("epoch_curve", [](const LruStack& stack) { return array_of(stack.epoch_curve()); })
      .def(
          "ended_curve",
          [](const LruStack& stack, std::uint64_t back) {
            return array_of(unwrap(stack.ended_curve(back)));
          },
          "back"_a = 0)
      .def("end_epoch", &LruStack::end_epoch)
      .def("pages", [](const LruStack& stack) { return array_of(stack.pages()); })
      .def_prop_ro("references", &LruStack::references)
      .def_prop_ro("distinct", &LruStack::distinct)
      .def_prop_ro("bytes", &LruStack::bytes)
      .def_prop_ro("epochs", &LruStack::epochs)
      .def_prop_ro("kept", &LruStack::kept);
}

void append_references(Replacement& memory, const Pages& pages,
                       const std::optional<Array<std::uint8_t>>& writes) {
  if (writes && writes->size() != pages.size())
    raise({"there are " + std::to_string(writes->size()) + " marks of writes for " +
               std::to_string(pages.size()) + " references",
           "", "give one for each"});
  const auto marks = writes ? span_of(*writes) : std::span<const std::uint8_t>();
  unwrap(without_gil([&] { return memory.append(span_of(pages), marks); }));
}

nb::dict misses_of(Replacement& memory) {
  const stack::Misses misses = without_gil([&] { return memory.misses(); });
  nb::dict numbers;
  numbers["references"] = misses.references;
  numbers["misses"] = misses.misses;
  numbers["evictions"] = misses.evictions;
  numbers["write_misses"] = misses.write_misses;
  numbers["writebacks"] = misses.writebacks;
  numbers["bytes"] = misses.bytes;
  return numbers;
}

nb::list replacement_policies() {
  nb::list rows;
  for (const auto& [facts, make] : stack::replacements())
    rows.append(
        nb::make_tuple(std::string(facts.name), std::string(facts.description), facts.least));
  return rows;
}

void bind_replacement(nb::module_& m) {
  nb::class_<Replacement>(m, "Replacement", "A memory of so many pages under one policy.")
      .def("append", &append_references, "pages"_a, "writes"_a = nb::none())
      .def("misses", &misses_of);
  m.def(
      "replacement",
      [](const std::string& policy, std::uint64_t memory) {
        return unwrap(stack::make_replacement(policy, memory));
      },
      "policy"_a, "memory"_a);
  m.def("replacement_policies", &replacement_policies, "(name, description, least memory)");
}

}  // namespace

void bind_stack(nb::module_& m) {
  bind_lru_stack(m);
  bind_replacement(m);
}

}  // namespace stallscope
