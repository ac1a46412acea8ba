// SPDX-License-Identifier: Apache-2.0
// The only list of replacement policies. Validation, help and documentation read it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "machine/sets.h"

namespace stallscope::machine {

struct PolicyEntry {
  std::string_view name;
  std::string_view description;
  std::uint32_t max_ways;
  bool ways_power_of_two;
  // Whether accessing a line again right after its fill changes nothing (after a hit it never
  // does, under any policy here). Then the fill may enter the table of settled lines.
  bool fill_settles;
  const SetOperations* (*operations)(std::uint32_t ways);
};

std::span<const PolicyEntry> policies();
const PolicyEntry* find_policy(std::string_view name);  // nullptr when there is none

}  // namespace stallscope::machine
