// SPDX-License-Identifier: Apache-2.0
#include "machine/path.h"

#include <utility>

namespace stallscope::machine {

Status PathUnit::check(const PathConfig& config) {
  if (Status tlb = PageSets::check("a TLB", config.tlb_entries, config.tlb_ways); !tlb) return tlb;
  if (Status buffer =
          PageSets::check("a page access buffer", config.buffer_entries, config.buffer_ways);
      !buffer)
    return buffer;
  if (config.filter_entries == 0 || config.log_entries == 0)
    return Error{"a filter or log without entries cannot be made", "both have at least one", ""};
  return Done{};
}

PathUnit::PathUnit(const PathConfig& config)
    : tlb_(config.tlb_entries, config.tlb_ways),
      buffer_(config.buffer_entries, config.buffer_ways),
      filter_(config.filter_entries, config.filter_entries),
      log_entries_(config.log_entries),
      refresh_(config.refresh) {}

bool PathUnit::translated(std::uint64_t page, bool writes) {
  ++counters_.lookups;
  return tlb_.look(page, writes) == PageSets::Found::hit;
}

bool PathUnit::missed(std::uint64_t page, bool writes) {
  ++counters_.tlb_misses;
  if (buffer_.look(page, writes) == PageSets::Found::hit) return false;
  ++counters_.buffer_misses;
  if (filter_.look(page, writes) == PageSets::Found::hit) return false;
  ++counters_.logged;
  ++unread_;
  if (++in_log_ == log_entries_) {
    in_log_ = 0;
    ++counters_.exceptions;
  }
  return true;
}

void PathUnit::turn(bool on) {
  if (on && !on_)
    for (PageSets* table : {&tlb_, &buffer_, &filter_}) table->clear();
  on_ = on;
}

std::uint32_t PathUnit::read_early() {
  if (in_log_ > 0) ++counters_.early_reads;
  return std::exchange(in_log_, 0);
}

}  // namespace stallscope::machine
