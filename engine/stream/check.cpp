// SPDX-License-Identifier: Apache-2.0
#include "stream/check.h"

#include <algorithm>
#include <charconv>

#include "stream/record.h"

namespace stallscope::stream {
namespace {

std::string hex(std::uint64_t value) {
  char text[18];
  const auto end = std::to_chars(text, text + sizeof text, value, 16).ptr;
  return "0x" + std::string(text, end);
}

std::string number(std::uint64_t value) { return std::to_string(value); }

bool allowed_behind_end(unsigned tag) {
  return tag == SS_THREAD_EXIT || tag == SS_UNMAP || tag == SS_NOTE;
}

}  // namespace

void Checker::report(Severity severity, const char* rule, std::string text) {
  ++(severity == Severity::error ? errors_ : notes_);
  if (violations_.size() < kMaxKept)
    violations_.push_back({severity, rule, item_, std::max(first_when_ + seen_.instructions, when_),
                           std::move(text)});
}

void Checker::on_block(std::uint32_t exit, const Exit& info, const std::uint64_t* addresses) {
  if (!started_) [[unlikely]] {
    report(Severity::error, "start", "a block is executed before process_start");
    started_ = true;
  }
  if (ended_) [[unlikely]]
    report(Severity::error, "end", "a block is executed behind process_end");
  for (std::uint32_t i = 0; i < info.operations; ++i) {
    if (addresses[i] != SS_NO_ADDRESS) [[likely]]
      continue;
    if (code_.operations[info.first_operation + i].guarded == 0)
      report(Severity::error, "address",
             "operation " + number(i) + " of exit " + number(exit) +
                 " cannot be skipped, but has no address");
  }
  ++item_;
  ++seen_.executions;
  seen_.words += 1 + info.operations;
  seen_.accesses += info.operations;
  seen_.instructions += info.instructions;
}

Status Checker::on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  const auto tail = tail_of(words, count);
  if (tag == SS_PROCESS_START && tail)
    check_start(*reinterpret_cast<const ss_process_start*>(words));
  check_time(tag, words[1]);
  check_place(tag);
  if (tail)
    check_fields(tag, words, *tail);
  else
    report(Severity::error, "shape", std::string(record_name(tag)) + ": " + tail.error().what);
  ++item_;
  seen_.words += count;
  ++seen_.records[tag % Totals::kTags];
  return Done{};
}

void Checker::check_start(const ss_process_start& record) {
  if (started_) return;
  forked_ = record.fork_token != 0;
  if (forked_)
    first_when_ = record.when;
  else if (record.when != 0)
    report(Severity::error, "time",
           "a process that was not forked begins with a clock of " + number(record.when) +
               " instructions");
}

void Checker::check_time(unsigned tag, std::uint64_t when) {
  std::uint64_t& last = tag == SS_BLOCK ? block_when_ : when_;
  if (when < last)
    report(Severity::error, "time",
           std::string(record_name(tag)) + " happens at " + number(when) +
               " instructions, the one in front at " + number(last));
  last = when;
  if (tag == SS_BLOCK || (mode_ & SS_MODE_STREAM) == 0 || when - first_when_ == seen_.instructions)
    return;
  report(Severity::error, "time",
         std::string(record_name(tag)) + " happens at " + number(when) +
             " instructions, but the blocks in front of it make it " +
             number(first_when_ + seen_.instructions));
}

// `block` records are moved when a trace is written, so they may stand anywhere.
void Checker::check_place(unsigned tag) {
  if (tag == SS_BLOCK) return;
  if (tag == SS_PROCESS_START) {
    if (started_) report(Severity::error, "start", "process_start is not the first record");
  } else if (!started_) {
    report(Severity::error, "start",
           std::string(record_name(tag)) + " stands before process_start");
  }
  started_ = true;
  if (ended_ && !allowed_behind_end(tag))
    report(Severity::error, "end", std::string(record_name(tag)) + " stands behind process_end");
  if (tag == SS_PROCESS_END) ended_ = true;
}

void Checker::check_fields(unsigned tag, const std::uint64_t* words, std::string_view tail) {
  const std::uint32_t thread = SS_HEAD_THREAD(words[0]);
  switch (tag) {
    case SS_BLOCK:
      return check_block(*reinterpret_cast<const ss_block*>(words));
    case SS_THREAD_START:
      return check_thread_start(thread);
    case SS_THREAD_EXIT:
      return check_thread_exit(thread);
    case SS_THREAD_SWITCH:
      return check_switch(thread);
    case SS_SITE:
      if (!sites_.insert(reinterpret_cast<const ss_site*>(words)->site).second)
        report(Severity::error, "site", "a site is defined twice");
      if (tail.size() % 8 != 0)
        report(Severity::error, "site", "a site's tail is not a list of addresses");
      return;
    case SS_ALLOC:
      return check_alloc(*reinterpret_cast<const ss_alloc*>(words));
    case SS_FREE:
      return check_free(reinterpret_cast<const ss_free*>(words)->address);
    case SS_SIGNAL:
      return check_signal(*reinterpret_cast<const ss_signal*>(words));
    case SS_MARK:
      return check_mark(*reinterpret_cast<const ss_mark*>(words), tail);
    default:
      return;
  }
}

// CodeTable has checked the record before it came here; what remains is that its exits lie in
// program order.
void Checker::check_block(const ss_block& record) {
  const Exit* last = nullptr;
  for (std::uint64_t i = 0; i < record.exits; ++i) {
    const Exit& exit = code_.exits[record.first_exit + i];
    if (last != nullptr &&
        (exit.instructions < last->instructions || exit.operations < last->operations))
      report(Severity::error, "block",
             "the exits of the block at " + hex(record.address) + " are out of order");
    last = &exit;
  }
}

void Checker::check_thread_start(std::uint32_t thread) {
  if (!threads_.try_emplace(thread).second)
    report(Severity::error, "thread", "thread " + number(thread) + " starts twice");
}

void Checker::check_thread_exit(std::uint32_t thread) {
  const auto found = threads_.find(thread);
  if (found == threads_.end() || found->second.exited)
    return report(Severity::error, "thread",
                  "thread " + number(thread) + " exits, but is not running");
  found->second.exited = true;
}

void Checker::check_switch(std::uint32_t thread) {
  const auto found = threads_.find(thread);
  if (found == threads_.end())
    report(Severity::error, "thread", "thread " + number(thread) + " runs before it started");
  else if (found->second.exited)
    report(Severity::error, "thread", "thread " + number(thread) + " runs after it exited");
}

// realloc reports its old block as freed before it is called; when it fails, the block lives on.
void Checker::check_revival(std::uint64_t address) {
  if (address == 0 || address != freed_.first)
    return report(Severity::error, "heap", "a block comes back that was not just freed");
  heap_.insert(freed_);
}

void Checker::check_alloc(const ss_alloc& record) {
  if (!sites_.contains(record.site))
    report(Severity::error, "site",
           "site " + number(record.site) + " is used before it is defined");
  if (record.kind > SS_ALLOC_KIND_NEW_ARRAY)
    report(Severity::error, "heap", "an allocation is of an unknown kind");
  if (record.address == 0) return check_revival(record.old_address);
  // malloc(0) gives a block of its own, too.
  const std::uint64_t size = std::max<std::uint64_t>(record.size, 1);
  const auto behind = heap_.lower_bound(record.address);
  const bool hits_behind = behind != heap_.end() && behind->first - record.address < size;
  bool hits_before = false;
  if (behind != heap_.begin()) {
    const auto before = std::prev(behind);
    hits_before = record.address - before->first < before->second;
  }
  if (hits_before || hits_behind)
    report(Severity::error, "heap",
           "the block of " + number(record.size) + " bytes at " + hex(record.address) +
               " overlaps one that is still alive");
  heap_[record.address] = size;
}

void Checker::check_free(std::uint64_t address) {
  const auto found = heap_.find(address);
  if (found == heap_.end())
    return report(Severity::note, "free", "free of " + hex(address) + ", which is no live block");
  freed_ = *found;
  heap_.erase(found);
}

void Checker::check_signal(const ss_signal& record) {
  Thread& thread = threads_[SS_HEAD_THREAD(record.head)];
  if (record.entered != 0)
    ++thread.handlers;
  else if (thread.handlers == 0)  // a fork may happen inside a handler
    report(forked_ ? Severity::note : Severity::error, "signal",
           "a handler of signal " + number(record.number) + " is left, but none was entered");
  else
    --thread.handlers;
}

void Checker::check_mark(const ss_mark& record, std::string_view name) {
  auto& regions = threads_[SS_HEAD_THREAD(record.head)].regions;
  if (record.kind == SS_MARK_KIND_REGION_BEGIN) {
    regions.emplace_back(name);
  } else if (record.kind == SS_MARK_KIND_REGION_END) {
    if (!regions.empty() && regions.back() == name)
      regions.pop_back();
    else
      report(Severity::note, "region",
             "the region '" + std::string(name) + "' ends, but is not the innermost one");
  }
}

void Checker::check_counts(std::span<const std::uint64_t> counts) {
  if (counts.size() != code_.exits.size())
    return report(Severity::error, "counts",
                  "there are " + number(counts.size()) + " counters for " +
                      number(code_.exits.size()) + " exits");
  std::uint64_t instructions = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    instructions += counts[i] * code_.exits[i].instructions;
  // A process that was killed went on counting after its last record.
  const std::uint64_t told = when_ - first_when_;
  if (ended_ ? instructions != told : instructions < told)
    report(Severity::error, "counts",
           "the counters give " + number(instructions) + " instructions, the last record " +
               number(told));
}

void Checker::finish(const std::optional<Totals>& told, std::span<const std::uint64_t> counts) {
  if ((mode_ & SS_MODE_COUNT) != 0) check_counts(counts);
  if (told && *told != seen_)
    report(Severity::error, "totals", "the totals at the end differ from what the stream held");
  for (const auto& [thread, state] : threads_)
    for (const std::string& region : state.regions)
      report(Severity::note, "region", "the region '" + region + "' does not end");
}

Checker check_trace(TraceReader& reader, unsigned mode) {
  Checker checker(reader.code(), mode);
  const auto unreadable = [&](const Error& error) {
    checker.report(Severity::error, "file", error.what + ": " + error.why);
  };
  if (Status read = reader.for_each(checker); !read) {
    unreadable(read.error());
    return checker;
  }
  if (reader.truncated()) {
    checker.report(Severity::note, "file",
                   "the trace is cut off at byte " + number(reader.truncated_at()));
    return checker;
  }
  const auto told = reader.totals();
  if (!told) unreadable(told.error());
  const auto counts = reader.counts();
  if (!counts) unreadable(counts.error());
  std::span<const std::uint64_t> counters;
  if (counts && counts->has_value()) counters = **counts;
  checker.finish(told ? *told : std::nullopt, counters);
  return checker;
}

}  // namespace stallscope::stream
