// SPDX-License-Identifier: Apache-2.0
// Tables leave as columns: {name: memoryview}, or {name: (offsets, bytes)} for text. No copies:
// every view keeps its table alive.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <vector>

#include "stallscope_tables.h"

namespace stallscope {

template <typename T>
nanobind::object view_of(const T* data, std::size_t size, nanobind::handle owner) {
  namespace nb = nanobind;
  static const T kNothing{};  // Arrow takes no null pointer, not even for no rows
  return nb::cast(
      nb::ndarray<nb::memview, const T, nb::ndim<1>>(size ? data : &kNothing, {size}, owner));
}

template <typename T>
nanobind::object array_of(std::vector<T> values) {
  auto kept = std::make_unique<std::vector<T>>(std::move(values));
  const std::vector<T>& rows = *kept;
  nanobind::capsule owner(kept.release(),
                          [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return view_of(rows.data(), rows.size(), owner);
}

template <typename Table>
nanobind::dict columns_of(std::unique_ptr<Table> table) {
  namespace nb = nanobind;
  Table& rows = *table;
  nb::capsule owner(table.release(), [](void* p) noexcept { delete static_cast<Table*>(p); });
  nb::dict columns;
  rows.for_each_column([&](const char* name, auto& column) {
    using Column = std::remove_reference_t<decltype(column)>;
    if constexpr (std::is_same_v<Column, StringColumn>)
      columns[name] =
          nb::make_tuple(view_of(column.offsets.data(), column.offsets.size(), owner),
                         view_of(reinterpret_cast<const std::uint8_t*>(column.data.data()),
                                 column.data.size(), owner));
    else
      columns[name] = view_of(column.data(), column.size(), owner);
  });
  return columns;
}

template <typename Table>
void add_table(nanobind::dict& tables, Table table) {
  tables[Table::kName] = columns_of(std::make_unique<Table>(std::move(table)));
}

}  // namespace stallscope
