// SPDX-License-Identifier: Apache-2.0
// Which bytes of what a program reads and writes are kept while it is recorded: those of ranges
// that were asked for, of variables of a program once it is mapped, and of heap blocks whose
// allocation paths have a function of some name in them. Nothing else reaches the disk.
//
// Engine thread only. A forked child has one of its own, which what it inherits fills.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "probes/range_set.h"
#include "session/heap_ranges.h"
#include "stream/code_table.h"
#include "symbols/symbol_cache.h"
#include "target/target.h"

namespace stallscope::session {

// What was asked for. The `watch` of a range is the number of the target that it belongs to.
struct ValueTargets {
  struct Blocks {
    std::string path;  // text that is in the allocation path; empty: any
    HeapWatch bytes;
  };
  std::uint32_t count = 0;                         // of targets
  std::string program;                             // whose variables are meant
  std::vector<probes::RangeSet::Range> ranges;     // as they lie in memory
  std::vector<probes::RangeSet::Range> variables;  // as they lie in the program's file
  std::vector<Blocks> blocks;
};

class KeptValues {
 public:
  // `symbols` is used by other threads too.
  KeptValues(std::shared_ptr<const ValueTargets> targets, symbols::SymbolCache& symbols);

  // After `target` has taken the record.
  void on_record(unsigned tag, const std::uint64_t* words, const target::Target& target);
  // A mask for each operation (values.h), valid until the next call.
  const std::uint8_t* masks(const stream::CodeTable& code, const stream::Exit& info,
                            const std::uint64_t* addresses);
  // By target: whether there was any such memory.
  const std::vector<bool>& found() const { return found_; }

 private:
  void add(const probes::RangeSet::Range& range);
  void place_variables(const target::Module& module);
  void learn_site(std::uint32_t site, const target::Target& target);
  std::vector<std::string> path(std::span<const std::uint64_t> frames,
                                const target::Target& target);

  std::shared_ptr<const ValueTargets> targets_;
  symbols::SymbolCache& symbols_;
  probes::RangeSet ranges_;
  HeapRanges heap_;
  std::vector<std::uint64_t> placed_;  // biases with which the variables are in ranges_
  std::vector<std::uint8_t> masks_;
  std::vector<bool> found_;
};

}  // namespace stallscope::session
