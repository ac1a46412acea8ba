// SPDX-License-Identifier: Apache-2.0
#include "session/thread_streams.h"

#include <algorithm>
#include <map>
#include <optional>

#include "session/known_bytes.h"
#include "stream/reader.h"
#include "stream/record.h"
#include "stream/values.h"

namespace stallscope::session {
namespace {

constexpr unsigned kProgramShift = 42;  // above all lines of an address space
constexpr std::string_view kBarrier = "barrier";

struct Wake {
  std::uint32_t thread;
  std::size_t index;
};

class Loader {
 public:
  Loader(std::uint32_t program, std::uint32_t line_bits, std::uint64_t most,
         const stream::CodeTable& code, const WatchedMemory& watched, stream::ValueReader* values,
         ThreadStreams& into)
      : program_(program),
        line_bits_(line_bits),
        most_(most),
        code_(code),
        watched_(watched),
        values_(values),
        looking_(!watched.ranges.empty()),
        into_(into),
        first_(into.threads.size()) {
    for (const auto& range : watched.ranges) ranges_.add(range);
    run(1);
  }

  void on_block(std::uint32_t, const stream::Exit& info, const std::uint64_t* addresses) {
    const std::uint64_t* values = values_ ? values_->read(code_, info, addresses) : nullptr;
    std::uint32_t done = 0;  // instructions of the block
    for (std::uint32_t i = 0; i < info.operations; ++i) {
      const stream::Operation& operation = code_.operations[info.first_operation + i];
      if (addresses[i] == SS_NO_ADDRESS || operation.is_prefetch()) continue;
      now_->gap += operation.instruction + 1u > done ? operation.instruction + 1u - done : 0;
      done = std::max<std::uint32_t>(done, operation.instruction + 1u);
      access(static_cast<ThreadEvent>(operation.kind), addresses[i], operation.size);
      if (values && watched_.all_values) {
        ThreadStream& stream = into_.threads[now_->at];
        const std::uint8_t whole = stream::ValuePredictor::whole(operation.size);
        stream.values.resize(stream.events.size(), values[i]);
        stream.known.resize(stream.events.size(), values_->known()[i] == whole);
      }
      if (looking_ && ranges_.may_touch(addresses[i], operation.size)) [[unlikely]]
        look(operation, addresses[i], values ? &values[i] : nullptr,
             values ? values_->known()[i] : 0);
    }
    now_->gap += info.instructions > done ? info.instructions - done : 0;
    into_.instructions += info.instructions;
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count);

  void finish() {
    for (auto& [number, thread] : threads_) flush(thread);
    std::uint32_t parties = 0;
    for (const auto& [number, thread] : threads_) parties += thread.barriers > 0;
    into_.parties.push_back(parties);
  }

 private:
  struct Thread {
    std::size_t at;         // in into_.threads
    std::uint64_t gap = 0;  // instructions since the last event
    std::uint64_t barriers = 0;
    bool in_barrier = false;      // how it is made is no wait of its own
    std::uint64_t futex = 0;      // word that it waits on
    std::optional<Wake> woken{};  // by the first wake-up since
    std::size_t barrier_at = 0;   // the first, in its events
    // Who is at a barrier with it was there before.
    std::size_t reached(std::size_t size) const { return barriers > 0 ? barrier_at : size; }
  };

  std::vector<std::uint64_t>& events(const Thread& thread) {
    return into_.threads[thread.at].events;
  }
  void run(std::uint32_t number) {
    const auto [at, fresh] = threads_.try_emplace(number, Thread{into_.threads.size()});
    if (fresh) into_.threads.push_back({program_, number, {}, {}, {}, {}, {}});
    now_ = &at->second;
  }
  // What was computed since the last event, when it does not fit into the next.
  void flush(Thread& thread) {
    if (thread.gap == 0) return;
    events(thread).push_back(Packed::of(Special::compute, thread.gap));
    thread.gap = 0;
  }
  void access(ThreadEvent kind, std::uint64_t address, std::uint32_t size) {
    if (now_->gap > Packed::kMostGap) flush(*now_);
    const std::uint64_t last = (address + (size ? size - 1 : 0)) >> line_bits_;
    for (std::uint64_t line = address >> line_bits_; line <= last; ++line) {
      events(*now_).push_back(
          Packed::of(kind, now_->gap, line | std::uint64_t{program_ + 1} << kProgramShift));
      now_->gap = 0;
      ++into_.accesses;
    }
  }
  void tell(const ThreadStream::When& when) {
    flush(*now_);
    std::vector<ThreadStream::When>& whens = into_.threads[now_->at].whens;
    events(*now_).push_back(Packed::of(Special::when, whens.size()));
    whens.push_back(when);
  }
  void look(const stream::Operation& operation, std::uint64_t address, const std::uint64_t* value,
            std::uint8_t bytes) {
    const bool writes = operation.kind != SS_OP_KIND_LOAD;
    const bool reads = operation.kind != SS_OP_KIND_STORE;
    if (value) known_.see(address, operation.size, *value, bytes, writes);
    const unsigned kind = (reads ? 1u : 0u) | (writes ? 2u : 0u);
    ranges_.touched(address, operation.size, [&](const probes::RangeSet::Range& range) {
      if (!(watched_.kind & kind)) return;
      const std::optional<std::uint64_t> held = known_.number(range.start, range.end);
      tell({watched_.names[range.watch], held.value_or(0), true, held.has_value()});
    });
  }
  void wait_for(Thread& thread, const Wake& wake) {
    if (wake.thread == thread.at) return;
    flush(thread);
    std::vector<ThreadStream::Wait>& waits = into_.threads[thread.at].waits;
    events(thread).push_back(Packed::of(Special::wait, waits.size()));
    waits.push_back({wake.thread, wake.index});
  }
  void synchronise(const ss_sync& record);

  std::uint32_t program_, line_bits_;
  std::uint64_t most_;
  const stream::CodeTable& code_;
  const WatchedMemory& watched_;
  stream::ValueReader* values_;
  bool looking_;
  probes::RangeSet ranges_;
  KnownBytes known_;
  ThreadStreams& into_;
  std::size_t first_;
  std::map<std::uint32_t, Thread> threads_;  // by number
  Thread* now_ = nullptr;
};

Status Loader::on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  if (tag == SS_SIFTED) return Error{"the stream has sifted accesses where all are wanted", "", ""};
  if (tag == SS_THREAD_SWITCH) {
    run(SS_HEAD_THREAD(words[0]));
    if (into_.accesses > most_)
      return Error{"the recording is too long for a simulated system",
                   "it has more than " + std::to_string(most_) + " accesses",
                   "record less of it: --max-instructions N"};
  } else if (tag == SS_THREAD_START) {
    const auto& record = *reinterpret_cast<const ss_thread_start*>(words);
    const std::uint32_t number = SS_HEAD_THREAD(words[0]);
    const auto parent = threads_.find(static_cast<std::uint32_t>(record.parent));
    if (parent != threads_.end() && parent->first != number && !threads_.contains(number)) {
      Thread* const before = now_;
      const Wake born{static_cast<std::uint32_t>(parent->second.at),
                      parent->second.reached(events(parent->second).size())};
      run(number);
      wait_for(*now_, born);
      now_ = before;
    }
  } else if (tag == SS_SYNC) {
    synchronise(*reinterpret_cast<const ss_sync*>(words));
  } else if (tag == SS_WHEN) {
    const auto when = stream::view<ss_when>(words, count);
    if (when) tell({when_name(when->tail), when->fields->value});
  } else if (tag == SS_MARK) {
    const auto mark = stream::view<ss_mark>(words, count);
    if (!mark || mark->tail != kBarrier) return Done{};
    now_->in_barrier = mark->fields->kind == SS_MARK_KIND_REGION_BEGIN;
    if (!now_->in_barrier) return Done{};
    flush(*now_);
    if (now_->barriers == 0) now_->barrier_at = events(*now_).size();
    events(*now_).push_back(Packed::of(Special::barrier, now_->barriers++));
  }
  return Done{};
}

void Loader::synchronise(const ss_sync& record) {
  if (now_->in_barrier) return;
  if (record.kind == SS_SYNC_KIND_FUTEX_WAIT) {
    now_->futex = record.address;
    now_->woken.reset();
  } else if (record.kind == SS_SYNC_KIND_FUTEX_WAKE || record.kind == SS_SYNC_KIND_EXIT) {
    flush(*now_);
    const Wake wake{static_cast<std::uint32_t>(now_->at), events(*now_).size()};
    for (auto& [number, thread] : threads_)
      if (thread.futex == record.address && !thread.woken) thread.woken = wake;
  } else if (record.kind == SS_SYNC_KIND_FUTEX_WOKEN) {
    if (now_->woken) wait_for(*now_, *now_->woken);
    now_->futex = 0;
    now_->woken.reset();
  }
}

}  // namespace

std::uint64_t when_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return hash;
}

Status load_threads(const std::string& path, std::uint32_t program, std::uint32_t line_bits,
                    std::uint64_t most, const WatchedMemory& watched, ThreadStreams& into) {
  for (const auto& range : watched.ranges)
    if (range.watch >= watched.names.size()) return Error{"a range belongs to no watch", "", ""};
  auto reader = stream::TraceReader::open(path);
  if (!reader) return reader.error();
  std::optional<stream::ValueReader> values;
  if (!watched.values.empty()) {
    auto opened = stream::ValueReader::open(watched.values);
    if (!opened) return opened.error();
    values.emplace(std::move(*opened));
  }
  Loader loader(program, line_bits, most, reader->code(), watched, values ? &*values : nullptr,
                into);
  if (Status read = reader->for_each(loader); !read) return read.error();
  if (values && !reader->truncated())
    if (Status ended = values->end(); !ended) return ended.error();
  loader.finish();
  return Done{};
}

}  // namespace stallscope::session
