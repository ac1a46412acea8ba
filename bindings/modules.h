// SPDX-License-Identifier: Apache-2.0
// Modules of a process, as Python tells them: (path, build id, bias, start, end).
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "types/inference.h"

namespace stallscope {

using ModuleWords =
    std::tuple<std::string, nanobind::bytes, std::uint64_t, std::uint64_t, std::uint64_t>;

inline std::vector<types::Module> modules_of(const std::vector<ModuleWords>& rows) {
  std::vector<types::Module> modules;
  for (const auto& [path, id, bias, start, end] : rows)
    modules.push_back({path, {id.c_str(), id.size()}, bias, start, end});
  return modules;
}

}  // namespace stallscope
