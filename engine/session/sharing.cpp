// SPDX-License-Identifier: Apache-2.0
#include "session/sharing.h"

#include <bit>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "session/interleaver.h"
#include "session/memory_events.h"
#include "session/scheduler.h"
#include "session/shared_lines.h"
#include "session/source_sampler.h"
#include "stream/reader.h"

namespace stallscope::session {
namespace {

using machine::Coherence;
using machine::Fill;
using machine::kSources;
using machine::Source;

// Words that lie elsewhere than when they were recorded.
class Moves {
 public:
  explicit Moves(const std::vector<MovedWords>& moved) : sieve_(kSieve) {
    for (const MovedWords& one : moved) {
      *chunks_.try_emplace(one.chunk).first = one.to;
      sieve_[one.chunk & (kSieve - 1)] = 1;
    }
  }
  bool empty() const { return chunks_.empty(); }
  std::uint64_t operator()(std::uint64_t address) const {
    const std::uint64_t chunk = address >> 6;
    if (!sieve_[chunk & (kSieve - 1)]) return address;
    const auto* const to = chunks_.find(chunk);
    const std::uint64_t word = to ? (*to)[address >> 3 & 7] : 0;
    return word ? word + (address & 7) : address;
  }

 private:
  static constexpr std::size_t kSieve = 1 << 16;
  FlatMap<std::array<std::uint64_t, 8>> chunks_;
  std::vector<std::uint8_t> sieve_;
};

struct ByThread {
  std::uint64_t count[kSources]{}, cycles[kSources]{};
  std::uint64_t instructions = 0;
  std::uint64_t settled = 0;  // instructions at which it has fetched its data to where it is now
  std::uint32_t chip = machine::kMostCores;
};

// A sink of the stream. `kSpecial`: lines are followed or data moved, which costs every access.
template <bool kSpecial>
class Sharing {
 public:
  Sharing(Coherence& machine, const stream::CodeTable& code, const SharingOptions& options)
      : buckets_(),
        machine_(machine),
        code_(code),
        options_(options),
        scheduler_(options.chips, options.placement, options.seed, options.first),
        sampler_(options.sampling, options.seed),
        followed_(options.followed, machine.line_bits()),
        moves_(options.moved),
        context_cycles_(options.chips.contexts()) {
    buckets_.keep_starts();
    enter(1);
  }

  void on_block(std::uint32_t, const stream::Exit& info, const std::uint64_t* addresses) {
    for (std::uint32_t i = 0; i < info.operations; ++i) {
      const std::uint32_t number = info.first_operation + i;
      const stream::Operation& operation = code_.operations[number];
      if (addresses[i] == SS_NO_ADDRESS || operation.is_prefetch()) continue;
      ++accesses_;
      const std::uint64_t address = kSpecial ? moves_(addresses[i]) + shift_ : addresses[i];
      const bool writes = operation.kind != SS_OP_KIND_LOAD;
      const std::uint64_t line = address >> line_bits_;
      const std::uint32_t size = operation.size ? operation.size : 1;
      if ((address & line_mask_) + size > line_mask_ + 1) [[unlikely]] {
        access_parts(address, size, number, writes);
        continue;
      }
      const Fill fill = machine_.access(core_, line, writes);
      if (fill.source != Source::inner) served(fill, {address, size, thread_, number, writes});
      if constexpr (kSpecial) follow(line, fill, {address, size, thread_, number, writes});
    }
    instructions_ += info.instructions;
  }

  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
    if (tag == SS_SIFTED)
      return Error{"the stream has sifted accesses where all are wanted", "", ""};
    if (tag == SS_THREAD_SWITCH) {
      turn(SS_HEAD_THREAD(words[0]));
    } else if (tag == SS_THREAD_START) {
      scheduler_.context_of(SS_HEAD_THREAD(words[0]));
    } else if (tag == SS_THREAD_EXIT) {
      scheduler_.end(SS_HEAD_THREAD(words[0]));
    } else {
      tell_memory(buckets_, tag, words, count);
    }
    return Done{};
  }

  // From here on this thread runs.
  void turn(std::uint32_t thread) {
    leave();
    if (options_.rotate && instructions_ - rotated_ >= options_.rotate) {
      rotated_ = instructions_;
      scheduler_.rotate();
    }
    enter(thread);
  }

  SharingTables tables();
  probes::Buckets& buckets() { return buckets_; }

 private:
  static bool waits(const stream::Operation& operation) {
    return operation.kind != SS_OP_KIND_STORE;
  }

  void access_parts(std::uint64_t address, std::uint32_t size, std::uint32_t number, bool writes) {
    for (std::uint64_t at = address, end = address + size; at < end;) {
      const std::uint64_t next = std::min<std::uint64_t>(end, (at | line_mask_) + 1);
      const LineAccess part{at, static_cast<std::uint32_t>(next - at), thread_, number, writes};
      const Fill fill = machine_.access(core_, at >> line_bits_, writes);
      if (fill.source != Source::inner) served(fill, part);
      if constexpr (kSpecial) follow(at >> line_bits_, fill, part);
      at = next;
    }
  }

  std::uint64_t waited(const Fill& fill, std::uint32_t operation) const {
    return waits(code_.operations[operation]) ? fill.latency - machine_.latency_of(Source::inner)
                                              : 0;
  }

  // Not by the core's first cache.
  void served(const Fill& fill, const LineAccess& access) {
    const std::uint64_t cycles = waited(fill, access.operation);
    const auto source = static_cast<unsigned>(fill.source);
    ++current_->count[source];
    current_->cycles[source] += cycles;
    waited_ += cycles;
    const std::uint64_t line = access.address >> line_bits_;
    if (is_coherent(fill.source))
      lines_.note(line, access, machine::is_remote_cache(fill.source), cycles, buckets_);
    else if (fill.source >= Source::memory)
      note_page(fill, access.address);
    if (options_.sampling.on && fill.source != Source::upgrade && settled())
      sampler_.miss(instructions_ + code_.operations[access.operation].instruction, thread_,
                    line << line_bits_, fill.source);
  }

  // Threads that were just moved fetch their own data from where they were: that shows nothing.
  bool settled() const {
    return current_->instructions + instructions_ - entered_ >= current_->settled;
  }

  void note_page(const Fill& fill, std::uint64_t address) {
    Page& page = pages_[{address & ~(options_.chips.page - 1), chip_}];
    if (!page.count++) page.bucket = buckets_.find(address);
    page.home = fill.from_chip;
  }

  void follow(std::uint64_t line, const Fill& fill, const LineAccess& access) {
    if (!followed_.maybe(line)) return;
    followed_.access(line, access, is_coherent(fill.source), waited(fill, access.operation));
  }

  void leave() {
    context_cycles_[context_] += instructions_ - entered_ + waited_;
    current_->instructions += instructions_ - entered_;
    if (options_.sampling.on) sampler_.settle(thread_);
  }
  void enter(std::uint32_t thread) {
    thread_ = thread;
    context_ = scheduler_.context_of(thread);
    core_ = options_.chips.core_of(context_);
    chip_ = options_.chips.chip_of(context_);
    current_ = &by_thread_[thread];
    entered_ = instructions_;
    waited_ = 0;
    if (current_->chip == chip_) return;
    current_->chip = chip_;
    current_->settled = current_->instructions + options_.rotate / (4 * scheduler_.alive());
  }

  struct Page {
    std::uint64_t count = 0;
    std::uint32_t bucket = 0, home = 0;
  };

  probes::Buckets buckets_;
  Coherence& machine_;
  const stream::CodeTable& code_;
  const SharingOptions& options_;
  Scheduler scheduler_;
  SourceSampler sampler_;
  SharedLines lines_;
  FollowedLines followed_;
  Moves moves_;
  std::map<std::uint32_t, ByThread> by_thread_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, Page> pages_;  // by page and chip
  std::vector<std::uint64_t> context_cycles_;
  ByThread* current_ = nullptr;
  std::uint32_t line_bits_ = machine_.line_bits();
  std::uint64_t shift_ = options_.shift;
  std::uint64_t line_mask_ = machine_.line_size() - 1;
  std::uint32_t thread_ = 1, context_ = 0, core_ = 0, chip_ = 0;
  std::uint64_t instructions_ = 0, accesses_ = 0, entered_ = 0, waited_ = 0, rotated_ = 0;
};

template <bool kSpecial>
SharingTables Sharing<kSpecial>::tables() {
  leave();
  SharingTables made;
  for (const auto& [thread, fills] : by_thread_)
    for (unsigned source = 0; source < kSources; ++source)
      if (fills.count[source])
        made.fill.append(
            {thread, static_cast<std::uint8_t>(source), fills.count[source], fills.cycles[source]});
  lines_.fill(line_bits_, made.shared_line);
  followed_.fill(made.shared_access);
  for (const auto& [key, page] : pages_)
    made.shared_page.append({key.first, page.bucket, page.home, key.second, page.count});
  made.samples = sampler_.samples();
  made.handler_cycles = made.samples * options_.sampling.cost;
  made.shared_sample = sampler_.take();
  buckets_.fill(made.bucket);
  made.instructions = instructions_;
  made.accesses = accesses_;
  made.context_cycles = std::move(context_cycles_);
  for (const Scheduler::Placed& one : scheduler_.threads())
    made.placement.emplace_back(one.thread, one.context);
  made.events = machine_.events();
  return made;
}

template <bool kSpecial>
Result<SharingTables> run(stream::TraceReader& reader, Coherence& machine,
                          const SharingOptions& options, const std::vector<Placed>& placed) {
  Sharing<kSpecial> sharing(machine, reader.code(), options);
  place_all(placed, sharing.buckets());
  if (options.grain) {
    Interleaver<Sharing<kSpecial>> mixed(sharing, reader.code(), options.grain,
                                         options.chips.contexts(), options.seed);
    if (Status read = reader.for_each(mixed); !read) return read.error();
    mixed.finish();
  } else if (Status read = reader.for_each(sharing); !read) {
    return read.error();
  }
  SharingTables made = sharing.tables();
  made.truncated = reader.truncated();
  return made;
}

// Whose turn it is, of two threads that read a trace each.
class Gate {
 public:
  void wait(unsigned who) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == who || done_[1 - who]; });
  }
  void pass(unsigned who) {
    {
      std::lock_guard lock(mutex_);
      turn_ = 1 - who;
    }
    changed_.notify_all();
    wait(who);
  }
  void end(unsigned who) {
    {
      std::lock_guard lock(mutex_);
      done_[who] = true;
      turn_ = 1 - who;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned turn_ = 0;
  bool done_[2]{};
};

// One of two programs: gives the machine away after every slice.
template <typename Sink>
struct Alternating {
  Sink& sink;
  Gate& gate;
  unsigned who;
  std::uint64_t slice;
  std::uint64_t used = 0;

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    sink.on_block(exit, info, addresses);
    used += info.instructions;
    if (used < slice) return;
    used = 0;
    gate.pass(who);
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
    return sink.on_record(tag, words, count);
  }
};

// Addresses of one program are none of the other's.
constexpr std::uint64_t kOtherProgram = std::uint64_t{1} << 56;

}  // namespace

Result<std::pair<SharingTables, SharingTables>> share_together(
    const std::array<std::string, 2>& paths, const machine::MachineConfig& config,
    const SharingOptions& options, std::uint64_t slice,
    const std::array<std::vector<Placed>, 2>& placed) {
  auto machine = Coherence::make(config, options.chips);
  if (!machine) return machine.error();
  Gate gate;
  Status status[2] = {Done{}, Done{}};
  SharingTables made[2];
  const auto play = [&](unsigned who) {
    SharingOptions own = options;
    own.shift = kOtherProgram * (who + 1);
    own.first = who * options.chips.chips;  // a core further on the same chips
    auto reader = stream::TraceReader::open(paths[who]);
    gate.wait(who);
    if (reader) {
      Sharing<true> sharing(**machine, reader->code(), own);
      place_all(placed[who], sharing.buckets());
      Alternating<Sharing<true>> alternating{sharing, gate, who, slice};
      status[who] = reader->for_each(alternating);
      made[who] = sharing.tables();
      made[who].truncated = reader->truncated();
    } else {
      status[who] = reader.error();
    }
    gate.end(who);
  };
  std::thread other(play, 1u);
  play(0);
  other.join();
  for (const Status& one : status)
    if (!one) return one.error();
  return std::pair(std::move(made[0]), std::move(made[1]));
}

Result<SharingTables> share(const std::string& path, const machine::MachineConfig& config,
                            const SharingOptions& options, const std::vector<Placed>& placed) {
  for (const auto& [thread, context] : options.placement)
    if (context >= options.chips.contexts())
      return Error{
          "thread " + std::to_string(thread) + " on processor " + std::to_string(context),
          "the machine has " + std::to_string(options.chips.contexts()) + ", counted from 0", ""};
  auto reader = stream::TraceReader::open(path);
  if (!reader) return reader.error();
  auto machine = Coherence::make(config, options.chips);
  if (!machine) return machine.error();
  for (const auto& [address, chip] : options.pages)
    if (chip < options.chips.chips) (*machine)->place_page(address, chip);
  if (options.followed.empty() && options.moved.empty() && !options.shift)
    return run<false>(*reader, **machine, options, placed);
  return run<true>(*reader, **machine, options, placed);
}

}  // namespace stallscope::session
