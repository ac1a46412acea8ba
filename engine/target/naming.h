// SPDX-License-Identifier: Apache-2.0
// From what the stream said about a process to the tables of its recording: addresses become
// functions, lines and variables here.
#pragma once

#include <cstdint>
#include <string>

#include "stallscope_tables.h"
#include "symbols/symbol_cache.h"
#include "target/target.h"

namespace stallscope::target {

struct Tables {
  ThreadTable thread;
  ModuleTable module;
  BlockTable block;
  OperationTable operation;
  SiteTable site;
  ObjectTable object;  // what was still there at the end; the dead went before
  QualityTable quality;
  std::uint64_t instructions = 0;
  std::uint64_t loads = 0;
  std::uint64_t stores = 0;
};

// Reads what names the blocks from `first` on will need, some of them at a time, so that
// make_tables finds it read. The number of the first block that is left.
std::uint32_t look_up_names(const Target& target, symbols::SymbolCache& cache, std::uint32_t first);

// `target` is closed. A file that cannot be read costs names, never rows.
Tables make_tables(Target& target, symbols::SymbolCache& cache);

}  // namespace stallscope::target
