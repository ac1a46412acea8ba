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

PathUnit::PathUnit(const PathConfig& config, PathClock* clock)
    : tlb_(config.tlb_entries, config.tlb_ways),
      buffer_(config.buffer_entries, config.buffer_ways),
      filter_(config.filter_entries, config.filter_entries),
      clock_(config.departures ? clock : nullptr),
      log_entries_(config.log_entries),
      refresh_(config.refresh) {}

bool PathUnit::translated(std::uint64_t page, bool writes) {
  ++counters_.lookups;
  if (clock_) clock_->look();
  from_tlb_ = {};
  const PageSets::Found found = tlb_.look(page, writes, now(), from_tlb_);
  in_tlb_ = found != PageSets::Found::none;
  return found == PageSets::Found::hit;
}

bool PathUnit::missed(std::uint64_t page, bool writes) {
  ++counters_.tlb_misses;
  room_ = false;
  PageSets::Gone gone, forgotten;
  const PageSets::Found found = buffer_.look(page, writes, now(), gone);
  bool logged = false;
  if (found != PageSets::Found::hit) {
    ++counters_.buffer_misses;
    logged = filter_.look(page, writes, now(), forgotten) != PageSets::Found::hit;
  }
  if (logged) {
    came_ = !in_tlb_ && found == PageSets::Found::none;
    ++counters_.logged;
    ++unread_;
    enter(true);
    if (clock_) {
      clock_->log();
      tlb_.note(page, now());
      buffer_.note(page, now());
    }
  }
  if (clock_) tell(gone);
  return logged;
}

// A page is gone when neither table has it.
void PathUnit::tell(PageSets::Gone from_buffer) {
  if (from_tlb_ && !buffer_.note(from_tlb_.page, from_tlb_.used)) {
    if (from_tlb_.page == from_buffer.page) from_buffer = {};
    leave(from_tlb_);
  }
  if (from_buffer && !tlb_.has(from_buffer.page)) leave(from_buffer);
  from_tlb_ = {};
}

// What leaves is told in the entry of what came in its place.
void PathUnit::leave(const PageSets::Gone& gone) {
  left_.push_back(gone);
  ++counters_.left;
  if (!std::exchange(room_, false)) enter(false);
}

void PathUnit::enter(bool has_page) {
  room_ = has_page;
  if (++in_log_ < log_entries_) return;
  in_log_ = 0;
  ++counters_.exceptions;
}

void PathUnit::drop_idle(std::uint64_t entries) {
  if (!clock_ || clock_->entries < entries) return;
  const std::uint64_t since = (clock_->entries - entries) << PathClock::kLookupBits;
  std::vector<PageSets::Gone> pages = buffer_.all();
  for (const PageSets::Gone& page : tlb_.all())
    if (!buffer_.has(page.page)) pages.push_back(page);
  for (PageSets::Gone page : pages) {
    page.used = std::max(page.used, tlb_.used(page.page));
    if (page.used >= since) continue;
    for (PageSets* table : {&tlb_, &buffer_, &filter_}) table->remove(page.page);
    leave(page);
  }
}

void PathUnit::turn(bool on) {
  if (!on && on_) {
    if (clock_) clock_->log();
    drop_idle(0);
    for (PageSets* table : {&tlb_, &buffer_, &filter_}) table->clear();
  }
  on_ = on;
}

std::uint32_t PathUnit::read_early() {
  if (in_log_ > 0) ++counters_.early_reads;
  room_ = false;
  return std::exchange(in_log_, 0);
}

}  // namespace stallscope::machine
