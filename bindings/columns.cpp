// SPDX-License-Identifier: Apache-2.0
#include "columns.h"

#include "bindings.h"

namespace nb = nanobind;

namespace stallscope {
namespace {

template <typename T>
void set_bits(const T* values, std::size_t count, T none, std::uint8_t* bits) {
  for (std::size_t i = 0; i < count; ++i)
    bits[i / 8] |= static_cast<std::uint8_t>((values[i] != none) << (i % 8));
}

using Column = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::bytes valid_bits(const Column& column, std::uint64_t none) {
  std::vector<std::uint8_t> bits((column.size() + 7) / 8);
  if (column.itemsize() == 8)
    set_bits(static_cast<const std::uint64_t*>(column.data()), column.size(), none, bits.data());
  else if (column.itemsize() == 4)
    set_bits(static_cast<const std::uint32_t*>(column.data()), column.size(),
             static_cast<std::uint32_t>(none), bits.data());
  else if (column.itemsize() == 1)
    set_bits(static_cast<const std::uint8_t*>(column.data()), column.size(),
             static_cast<std::uint8_t>(none), bits.data());
  else
    throw nb::value_error("only columns of 1, 4 or 8 bytes have a value that means none");
  return nb::bytes(bits.data(), bits.size());
}

}  // namespace

void bind_columns(nb::module_& m) {
  m.def("valid_bits", valid_bits, nb::arg("column"), nb::arg("none"),
        "One bit a value, the lowest first: 1 where it is not `none`.");
}

}  // namespace stallscope
