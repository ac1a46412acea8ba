// SPDX-License-Identifier: Apache-2.0
// Arrays of page numbers in (anything with a buffer or DLPack: NumPy, Arrow), arrays of counts out.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <span>
#include <vector>

#include "bindings.h"
#include "columns.h"
#include "stack/lru_stack.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stallscope {
namespace {

using stack::LruStack;
using Pages = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::span<const std::uint64_t> span_of(const Pages& pages) { return {pages.data(), pages.size()}; }

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

}  // namespace

void bind_stack(nb::module_& m) { bind_lru_stack(m); }

}  // namespace stallscope
