// SPDX-License-Identifier: Apache-2.0
// Types that hold units, so that a line number is never added to an address.
#pragma once

#include <compare>
#include <cstdint>

namespace stallscope {

template <typename Tag, typename Rep = std::uint64_t>
struct Unit {
  Rep value{};
  constexpr Unit() = default;
  constexpr explicit Unit(Rep v) : value(v) {}
  constexpr auto operator<=>(const Unit&) const = default;
};

using Address = Unit<struct AddressTag>;
using InstructionCount = Unit<struct InstructionCountTag>;

}  // namespace stallscope
