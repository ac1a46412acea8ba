// SPDX-License-Identifier: Apache-2.0
#include "session/pages.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "stallscope_records.h"
#include "stream/record.h"

namespace stallscope::session {
namespace {

constexpr std::size_t kGathered = 1 << 16;
constexpr std::uint64_t kNoPage = ~std::uint64_t{0};
// Sizes of the page access buffer that are tried beside the one asked for.
constexpr std::uint32_t kBuffers[] = {128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
constexpr std::uint8_t kWrites = 1, kNotHot = 2, kLogged = 4, kRefreshed = 8, kCame = 16,
                       kLeft = 32;
// A page that was not used while the logs got so many entries for each one of the buffer leaves.
constexpr std::uint64_t kIdle = 8;

}  // namespace

Result<std::unique_ptr<PageTracker>> PageTracker::make(const PageOptions& options,
                                                       const stream::CodeTable& code) {
  if (!std::has_single_bit(options.page_size) || options.page_size < 64 ||
      options.page_size > std::uint64_t{1} << 40)
    return Error{"pages of " + std::to_string(options.page_size) + " bytes cannot be tracked",
                 "a page's size is a power of two, at least 64", "4096"};
  if (options.hot == 0 || options.hot > 4096)
    return Error{"the pages used last cannot be " + std::to_string(options.hot),
                 "at least 1, at most 4096", "16"};
  if (Status sound = machine::PathUnit::check(options.path); !sound) return sound.error();
  return std::unique_ptr<PageTracker>(new PageTracker(options, code));
}

PageTracker::PageTracker(const PageOptions& options, const stream::CodeTable& code)
    : options_(options),
      code_(code),
      bits_(static_cast<unsigned>(std::countr_zero(options.page_size))) {
  hot_.reserve(options.hot);
  running_ = &known(thread_);
}

PageTracker::Core PageTracker::make_core() {
  Core core{machine::PathUnit(options_.path, &clock_), {}};
  for (const std::uint32_t entries : kBuffers) {
    machine::PathConfig config = options_.path;
    config.buffer_entries = entries;
    if (machine::PathUnit::check(config)) core.others.emplace_back(config);
  }
  return core;
}

PageTracker::Thread& PageTracker::known(std::uint32_t thread) {
  const auto [at, is_new] = threads_.try_emplace(thread);
  if (!is_new) return at->second;
  const auto number = static_cast<std::uint32_t>(threads_.size() - 1);
  at->second.core = options_.cores ? number % options_.cores : number;
  if (at->second.core == cores_.size()) cores_.push_back(make_core());
  return at->second;
}

// The first thread's own stack is the common one until a second thread does something.
void PageTracker::run(std::uint32_t thread) {
  if (thread == thread_) return;
  learn();
  const bool first = references_ == 0;
  if (first) {  // nobody has done anything: whoever was expected may never come
    threads_.clear();
    cores_.clear();
  }
  if (!first && !running_->stack) running_->stack = std::make_unique<stack::LruStack>(stack_);
  thread_ = thread;
  running_ = &known(thread);
  if (!first && !running_->stack) running_->stack = std::make_unique<stack::LruStack>();
  last_page_ = kNoPage;
}

void PageTracker::learn() {
  if (gathered_.empty()) return;
  if (Status taken = stack_.append(gathered_); !taken) failed_ = taken;
  if (running_->stack)
    if (Status taken = running_->stack->append(gathered_); !taken) failed_ = taken;
  gathered_.clear();
}

void PageTracker::on_block(std::uint32_t, const stream::Exit& info,
                           const std::uint64_t* addresses) {
  const stream::Operation* const operations = code_.operations.data() + info.first_operation;
  for (std::uint32_t i = 0; i < info.operations; ++i) {
    const std::uint64_t address = addresses[i];
    if (address == SS_NO_ADDRESS || operations[i].is_prefetch()) continue;
    ++accesses_;
    const bool writes = operations[i].kind != SS_OP_KIND_LOAD;
    const std::uint64_t first = address >> bits_;
    const std::uint64_t last = (address + std::max(operations[i].size, 1u) - 1) >> bits_;
    if (first == last_page_ && last == first && (last_written_ || !writes)) continue;
    touch(first, address, writes);
    if (last != first) touch(last, last << bits_, writes);
  }
  instructions_ += info.instructions;
}

void PageTracker::touch(std::uint64_t page, std::uint64_t address, bool writes) {
  if (page != last_page_) {
    last_page_ = page;
    last_written_ = writes;
    ++references_;
    gathered_.push_back(page);
    if (gathered_.size() == kGathered) learn();
  }
  last_written_ |= writes;
  std::uint8_t flags = writes ? kWrites : 0;
  if (warm(page, writes)) flags |= kNotHot;
  Core& core = cores_[running_->core];
  const bool missed = !core.unit.translated(page, writes);
  if (missed) {
    if (core.unit.missed(page, writes)) {
      flags |= kLogged;
      if (core.unit.came()) flags |= kCame;
    }
    for (machine::PathUnit& other : core.others) {
      other.missed(page, writes);
      if (other.due()) other.refresh([](std::uint64_t) {});
    }
  }
  if (flags > kWrites) log(page, address, flags, clock_.now());
  if (missed) log_departures(core.unit);
  if (core.unit.due())
    core.unit.refresh(
        [this](std::uint64_t hot) { log(hot, hot << bits_, kLogged | kRefreshed, clock_.now()); });
}

void PageTracker::log_departures(machine::PathUnit& unit) {
  const auto gone = [this](std::uint64_t page, std::uint64_t used) {
    log(page, page << bits_, kLeft, used);
  };
  unit.departures(gone);
  const std::uint64_t idle = kIdle * options_.path.buffer_entries;
  if (clock_.entries - dropped_at_ < idle) return;
  dropped_at_ = clock_.entries;
  for (Core& core : cores_) {
    core.unit.drop_idle(idle);
    core.unit.departures(gone);
  }
}

void PageTracker::log(std::uint64_t page, std::uint64_t address, std::uint8_t flags,
                      std::uint64_t moment) {
  log_.append({.time = instructions_,
               .page = page,
               .thread = thread_,
               .bucket = buckets_.find(address),
               .region = region_,
               .flags = flags,
               .moment = moment});
}

bool PageTracker::warm(std::uint64_t page, bool writes) {
  auto at =
      std::find_if(hot_.begin(), hot_.end(), [&](const Hot& hot) { return hot.page == page; });
  const bool is_new = at == hot_.end();
  if (is_new) {
    if (hot_.size() == options_.hot) hot_.pop_back();
    at = hot_.insert(hot_.end(), {page, taken_ + log_.rows(), writes});
  } else if (writes && !at->written) {
    at->written = true;
    if (at->row >= taken_) log_.flags[at->row - taken_] |= kWrites;
  }
  std::rotate(hot_.begin(), at, at + 1);
  return is_new;
}

PageLogTable PageTracker::take_log() {
  taken_ += log_.rows();
  return std::exchange(log_, PageLogTable{});
}

void PageTracker::mark(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  const std::uint32_t thread = SS_HEAD_THREAD(words[0]);
  if (tag == SS_THREAD_SWITCH) {
    run(thread);
    regions_.run(thread);
  } else if (tag == SS_THREAD_EXIT) {
    regions_.exit(thread);
  } else if (tag == SS_MARK) {
    const auto record = stream::view<ss_mark>(words, count);
    if (!record) return;
    if (record->fields->kind == SS_MARK_KIND_REGION_BEGIN) regions_.begin(thread, record->tail);
    if (record->fields->kind == SS_MARK_KIND_REGION_END) regions_.end(thread, record->tail);
  } else {
    return;
  }
  if (const std::uint32_t now = regions_.current(); now != region_) {
    regions_.charge(region_, {instructions_, accesses_, {}});
    region_ = now;
  }
}

Status PageTracker::on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  if (tag == SS_ALLOC) {
    const auto& record = *reinterpret_cast<const ss_alloc*>(words);
    if (record.address)
      buckets_.allocate(record.address, record.size, static_cast<std::uint32_t>(record.site));
    else
      buckets_.revive(record.old_address);
  } else if (tag == SS_FREE) {
    buckets_.release(reinterpret_cast<const ss_free*>(words)->address);
  } else if (tag == SS_UNMAP) {
    const auto& record = *reinterpret_cast<const ss_unmap*>(words);
    buckets_.unmap(record.address, record.length);
  } else if (tag == SS_NAME_BLOCK) {
    if (auto record = stream::view<ss_name_block>(words, count); record)
      buckets_.give_name(record->tail, record->fields->address, record->fields->size);
  } else {
    mark(tag, words, count);
  }
  return failed_;
}

// The sizes from which on misses are fewer, and the last one, which is the footprint.
void PageTracker::fill_curve(std::uint32_t thread, const stack::LruStack& stack,
                             PageCurveTable& table) const {
  const std::vector<std::uint64_t> curve = stack.counts().curve();
  for (std::size_t pages = 1; pages < curve.size(); ++pages)
    if (pages == 1 || pages + 1 == curve.size() || curve[pages] != curve[pages - 1])
      table.append({.thread = thread, .pages = pages, .misses = curve[pages]});
}

void PageTracker::fill_units(PageTables& tables) const {
  std::vector<PageBufferRow> sums;
  for (const std::uint32_t entries : kBuffers) {
    machine::PathConfig config = options_.path;
    config.buffer_entries = entries;
    if (machine::PathUnit::check(config)) sums.push_back({.entries = entries});
  }
  for (std::uint32_t i = 0; i < cores_.size(); ++i) {
    const machine::PathCounters& counters = cores_[i].unit.counters();
    tables.unit.append({.unit = i,
                        .lookups = counters.lookups,
                        .tlb_misses = counters.tlb_misses,
                        .buffer_misses = counters.buffer_misses,
                        .logged = counters.logged,
                        .exceptions = counters.exceptions,
                        .refreshes = counters.refreshes,
                        .refreshed = counters.refreshed,
                        .departures = counters.left});
    for (std::size_t j = 0; j < sums.size(); ++j) {
      const machine::PathCounters& other = cores_[i].others[j].counters();
      sums[j].misses += other.buffer_misses;
      sums[j].logged += other.logged;
      sums[j].exceptions += other.exceptions;
      sums[j].refreshes += other.refreshes;
      sums[j].refreshed += other.refreshed;
    }
  }
  for (const PageBufferRow& row : sums) tables.buffer.append(row);
}

Result<PageTables> PageTracker::tables() {
  learn();
  if (!failed_) return failed_.error();
  PageTables made;
  fill_curve(0, stack_, made.curve);
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, thread] : threads_)
    if (thread.stack) numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  for (const std::uint32_t number : numbers)
    fill_curve(number, *threads_.at(number).stack, made.curve);
  fill_units(made);
  buckets_.fill(made.bucket);
  regions_.charge(region_, {instructions_, accesses_, {}});
  regions_.fill(made.region);
  made.instructions = instructions_;
  made.accesses = accesses_;
  made.references = references_;
  made.footprint = stack_.distinct();
  return made;
}

}  // namespace stallscope::session
