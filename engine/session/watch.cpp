// SPDX-License-Identifier: Apache-2.0
#include "session/watch.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/flat_map.h"
#include "session/known_bytes.h"
#include "session/stack_steps.h"
#include "stream/reader.h"
#include "stream/record.h"
#include "stream/values.h"

namespace stallscope::session {
namespace {

using probes::Frames;
using probes::RangeSet;

// Calls that are under way in each thread, by the return addresses on its stack.
class CallPaths {
 public:
  explicit CallPaths(const stream::CodeTable& code) : code_(code) {}

  void run(std::uint32_t thread) { now_ = &stacks_[thread]; }
  void exit(std::uint32_t thread) { stacks_[thread].clear(); }
  void on_block(const stream::Exit& info, const std::uint64_t* addresses) {
    if (info.first_operation + info.operations > steps_.size()) learn_stack_steps(code_, steps_);
    // Code that is not recorded, as the allocator's wrappers, returns unseen.
    const std::uint64_t here = code_.blocks[info.block].address;
    while (!now_->empty() && now_->back().back_to == here) now_->pop_back();
    for (std::uint32_t i = 0; i < info.operations; ++i) {
      const Frames::Step step = steps_[info.first_operation + i];
      if (step == Frames::Step::none) continue;
      while (!now_->empty() && now_->back().top <= addresses[i]) now_->pop_back();
      if (step == Frames::Step::call)
        now_->push_back({addresses[i], info.first_operation + i, behind(info, i)});
    }
  }
  // The number of the path that leads here now; its rows are in `table` the first time.
  std::uint32_t number(WatchPathTable& table) {
    std::vector<std::uint32_t> calls;
    for (auto at = now_->rbegin(); at != now_->rend() && calls.size() < kDeepest; ++at)
      calls.push_back(at->operation);
    const auto [at, fresh] =
        numbers_.try_emplace(std::move(calls), static_cast<std::uint32_t>(numbers_.size()));
    if (fresh)
      for (std::uint32_t depth = 0; depth < at->first.size(); ++depth)
        table.append({at->second, depth, at->first[depth]});
    return at->second;
  }

 private:
  static constexpr std::size_t kDeepest = 16;
  struct Call {
    std::uint64_t top;        // where its return address is
    std::uint32_t operation;  // that put it there
    std::uint64_t back_to;    // the return address
  };
  std::uint64_t behind(const stream::Exit& info, std::uint32_t operation) const {
    const std::uint16_t index = code_.operations[info.first_operation + operation].instruction;
    const stream::Instruction& call =
        code_.instructions[code_.blocks[info.block].first_instruction + index];
    return call.address + call.length;
  }
  const stream::CodeTable& code_;
  std::vector<Frames::Step> steps_;
  std::unordered_map<std::uint32_t, std::vector<Call>> stacks_;
  std::vector<Call>* now_ = &stacks_[0];
  std::map<std::vector<std::uint32_t>, std::uint32_t> numbers_;
};

class Watch {
  static constexpr std::uint64_t kMostSnapshot = 4096;  // bytes

 public:
  // `values` may be nullptr.
  Watch(const WatchOptions& options, const stream::CodeTable& code, stream::ValueReader* values)
      : options_(options), code_(code), values_(values), paths_(code), heap_(options.heap) {
    for (const RangeSet::Range& range : options.ranges) ranges_.add(range);
    out.most_ranges = ranges_.size();
  }

  void on_block(std::uint32_t, const stream::Exit& info, const std::uint64_t* addresses) {
    if (out.stopped) return;
    const std::uint64_t* values = values_ ? values_->read(code_, info, addresses) : nullptr;
    const stream::Operation* operation = code_.operations.data() + info.first_operation;
    for (std::uint32_t i = 0; i < info.operations; ++i)
      if (ranges_.may_touch(addresses[i], operation[i].size)) [[unlikely]]
        look(info, i, addresses[i], values);
    executed_ += info.instructions;
    out.accesses += info.operations;
    if (options_.paths) paths_.on_block(info, addresses);
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t) {
    if (tag == SS_SIFTED)
      return Error{"the stream has sifted accesses where all are wanted", "", ""};
    if (tag == SS_THREAD_SWITCH) {
      thread_ = SS_HEAD_THREAD(words[0]);
      paths_.run(thread_);
    } else if (tag == SS_THREAD_EXIT) {
      paths_.exit(SS_HEAD_THREAD(words[0]));
    } else if (!heap_.empty()) {
      heap_.on_record(tag, words,
                      [this](const RangeSet::Range& range, bool comes) { change(range, comes); });
    }
    return Done{};
  }

  void finish() {
    out.false_hits = ranges_.false_hits();
    counts_.for_each([&](std::uint64_t key, const Count& count) {
      out.count.append({static_cast<std::uint32_t>(key >> 32), static_cast<std::uint32_t>(key),
                        count.hits, count.first, count.last});
    });
  }

  Watched out;

 private:
  struct Count {
    std::uint64_t hits = 0, first = 0, last = 0;
  };

  void look(const stream::Exit& info, std::uint32_t index, std::uint64_t address,
            const std::uint64_t* values) {
    const stream::Operation& operation = code_.operations[info.first_operation + index];
    if (address == SS_NO_ADDRESS || operation.is_prefetch() || out.stopped) return;
    const std::uint8_t kind = operation.kind == SS_OP_KIND_LOAD    ? 1
                              : operation.kind == SS_OP_KIND_STORE ? 2
                                                                   : 3;
    bool seen = values == nullptr;
    ranges_.touched(address, operation.size, [&](const RangeSet::Range& range) {
      if (!std::exchange(seen, true))
        known_.see(address, operation.size, values[index], values_->known()[index],
                   operation.kind != SS_OP_KIND_LOAD);
      if (!(options_.kinds[range.watch] & kind) || is_quiet(info, operation)) return;
      hit(range, info.first_operation + index, executed_ + operation.instruction, address);
    });
  }

  bool is_quiet(const stream::Exit& info, const stream::Operation& operation) const {
    const std::uint64_t at =
        code_.instructions[code_.blocks[info.block].first_instruction + operation.instruction]
            .address;
    return std::any_of(options_.quiet.begin(), options_.quiet.end(),
                       [&](const auto& range) { return at >= range.first && at < range.second; });
  }

  void hit(const RangeSet::Range& range, std::uint32_t operation, std::uint64_t when,
           std::uint64_t address) {
    if (out.stopped) return;
    std::optional<std::uint64_t> value;
    if (values_) value = known_.number(range.start, range.end);
    if (options_.condition.is != WatchCondition::Is::anything) {
      out.unknown += !value;
      if (!value || !options_.condition.holds(*value)) return;
    }
    ++out.hits;
    const auto [count, fresh] = counts_.try_emplace(std::uint64_t{range.watch} << 32 | operation);
    if (fresh) count->first = when;
    count->last = when;
    ++count->hits;
    if (out.hit.rows() < options_.log) {
      if (value || (values_ && options_.snapshots)) keep_value(range, value);
      out.hit.append({when, range.watch, thread_, operation, address, range.start,
                      options_.paths ? paths_.number(out.path) : kNone32});
    }
    out.stopped = out.hits == options_.stop_after;
  }

  void keep_value(const RangeSet::Range& range, const std::optional<std::uint64_t>& value) {
    std::string snapshot;
    if (options_.snapshots)
      snapshot = known_.text(range.start, std::min(range.end, range.start + kMostSnapshot));
    out.value.append({out.hit.rows(), value.value_or(0),
                      static_cast<std::uint8_t>(value.has_value()), snapshot});
  }

  void change(const RangeSet::Range& range, bool comes) {
    if (comes) {
      ranges_.add(range);
      out.most_ranges = std::max<std::uint64_t>(out.most_ranges, ranges_.size());
    } else {
      ranges_.remove(range);
      if (values_) known_.forget(range.start, range.end);
    }
  }

  const WatchOptions& options_;
  const stream::CodeTable& code_;
  stream::ValueReader* values_;
  CallPaths paths_;
  RangeSet ranges_;
  KnownBytes known_;
  HeapRanges heap_;
  FlatMap<Count> counts_;  // by watch and operation
  std::uint32_t thread_ = 1;
  std::uint64_t executed_ = 0;
};

Status check(const WatchOptions& options) {
  if (options.values.empty() &&
      (options.snapshots || options.condition.is != WatchCondition::Is::anything))
    return Error{"there are no values to look at", "", ""};
  const auto known = [&](std::uint32_t watch) { return watch < options.kinds.size(); };
  for (const RangeSet::Range& range : options.ranges)
    if (!known(range.watch)) return Error{"a range belongs to no watch", "", ""};
  for (const HeapWatch& heap : options.heap) {
    if (!known(heap.watch)) return Error{"a range belongs to no watch", "", ""};
    if (heap.sites && !std::is_sorted(heap.sites->begin(), heap.sites->end()))
      return Error{"the sites of a watch are not in order", "", ""};
  }
  return Done{};
}

}  // namespace

Result<Watched> watch(const std::string& path, const WatchOptions& options) {
  if (Status checked = check(options); !checked) return checked.error();
  auto reader = stream::TraceReader::open(path);
  if (!reader) return reader.error();
  std::optional<stream::ValueReader> values;
  if (!options.values.empty()) {
    auto opened = stream::ValueReader::open(options.values);
    if (!opened) return opened.error();
    values.emplace(std::move(*opened));
  }
  Watch sink(options, reader->code(), values ? &*values : nullptr);
  if (Status read = reader->for_each(sink); !read) return read.error();
  if (values && !sink.out.stopped && !reader->truncated())
    if (Status ended = values->end(); !ended) return ended.error();
  sink.finish();
  sink.out.truncated = reader->truncated() || (values && values->truncated());
  return std::move(sink.out);
}

}  // namespace stallscope::session
