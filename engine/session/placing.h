// SPDX-License-Identifier: Apache-2.0
// Tells the stat buckets what lies where while a program is recorded: mappings and stacks as they
// come, and the variables of a file when its code is mapped.
#pragma once

#include <cstdint>

#include "probes/buckets.h"
#include "symbols/symbol_cache.h"
#include "target/target.h"

namespace stallscope::session {

class Placing {
 public:
  explicit Placing(symbols::SymbolCache& symbols) : symbols_(symbols) {}

  // After `target` has taken the record.
  void on_record(unsigned tag, const std::uint64_t* words, const target::Target& target,
                 probes::Buckets& buckets);
  // Whether it does anything with such a record.
  static bool concerns(unsigned tag);

 private:
  void place_mapping(std::uint64_t address, std::uint64_t size, const target::Target& target,
                     probes::Buckets& buckets);
  void place_variables(const target::Module& module, probes::Buckets& buckets);

  symbols::SymbolCache& symbols_;
};

}  // namespace stallscope::session
