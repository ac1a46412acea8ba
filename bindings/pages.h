// SPDX-License-Identifier: Apache-2.0
// What page tracking gives, and what it is told, between Python and the engine.
#pragma once

#include <nanobind/nanobind.h>

#include "columns.h"
#include "session/pages.h"

namespace stallscope {

inline session::PageOptions page_options_of(const nanobind::dict& from) {
  const auto number = [&](const char* name) { return nanobind::cast<std::uint32_t>(from[name]); };
  session::PageOptions options;
  options.page_size = nanobind::cast<std::uint64_t>(from["page_size"]);
  options.hot = number("hot");
  options.cores = number("cores");
  options.path = {number("tlb_entries"), number("tlb_ways"),       number("buffer_entries"),
                  number("buffer_ways"), number("filter_entries"), number("log_entries"),
                  number("refresh"),     number("departures")};
  return options;
}

// {"tables": {name: columns}, "instructions": …, "accesses": …, …}; the log goes its own way.
inline nanobind::dict pages_of(session::PageTables made) {
  nanobind::dict tables;
  add_table(tables, std::move(made.curve));
  add_table(tables, std::move(made.unit));
  add_table(tables, std::move(made.buffer));
  add_table(tables, std::move(made.bucket));
  add_table(tables, std::move(made.region));
  nanobind::dict result;
  result["tables"] = tables;
  result["instructions"] = made.instructions;
  result["accesses"] = made.accesses;
  result["references"] = made.references;
  result["footprint"] = made.footprint;
  return result;
}

}  // namespace stallscope
