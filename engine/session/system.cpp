// SPDX-License-Identifier: Apache-2.0
#include "session/system.h"

#include <algorithm>

#include "session/system_bus.h"
#include "session/system_threads.h"

namespace stallscope::session {
namespace {

using machine::Coherence;
using machine::Fill;
using machine::Protocol;
using machine::Source;
using machine::State;
using monitor::Event;
using monitor::Feature;

constexpr std::uint64_t kSlack = 32;     // cycles that a core may be ahead of the others
constexpr std::uint64_t kStretch = 500;  // cycles after which monitors hear how time goes on
constexpr std::uint64_t kBootCycles = 4096;

bool updates(Protocol protocol) {
  return protocol == Protocol::dragon || protocol == Protocol::dragon_owned;
}

// Stores on their way, in their order.
class StoreBuffer {
 public:
  explicit StoreBuffer(std::uint32_t size) : done_(size) {}
  // One more, that would be done then. The cycle at which the core goes on.
  std::uint64_t add(std::uint64_t now, std::uint64_t done) {
    std::uint64_t& slot = done_[next_];
    const std::uint64_t resumed = std::max(now, slot);
    last_ = std::max({last_, done, resumed});
    slot = last_;
    next_ = next_ + 1 == done_.size() ? 0 : next_ + 1;
    return resumed;
  }

 private:
  std::vector<std::uint64_t> done_;  // a ring
  std::size_t next_ = 0;
  std::uint64_t last_ = 0;
};

class System {
 public:
  System(const ThreadStreams& streams, Coherence& machine, const SystemOptions& options,
         monitor::Group& monitors)
      : streams_(streams),
        machine_(machine),
        options_(options),
        monitors_(monitors),
        threads_(streams, machine.config().all_cores(), options),
        buffers_(threads_.cores.size(), StoreBuffer(std::max(1u, options.store_buffer))),
        told_(threads_.cores.size()) {
    start_monitors();
  }

  Result<SystemRun> run();

 private:
  void start_monitors();
  void act(const monitor::Act& act);
  void run_core(std::uint32_t core, std::uint64_t until);
  // True when the thread stopped.
  bool special(std::uint32_t core, std::uint64_t word);
  void access(std::uint32_t core, std::uint64_t word);
  // With what the access at hand read or wrote, where that is known.
  void tell_access(Event event, std::uint32_t core, std::uint64_t line) {
    if (!monitors_.listens(event)) [[likely]]
      return;
    const SystemThreads::Thread& thread = threads_.threads[threads_.cores[core].running];
    const ThreadStream& stream = *thread.stream;
    const std::size_t at = thread.next - 1;
    const bool known = at < stream.known.size() && stream.known[at];
    notify({event, core, line << machine_.line_bits(), known ? stream.values[at] : 0, known});
  }
  void leave_cache(std::uint32_t core, ThreadEvent kind, std::uint64_t line, const Fill& fill);
  void prefetch(std::uint32_t core, std::uint64_t line);
  std::uint64_t transfer(std::uint64_t from, const Fill& fill, std::uint32_t bus);
  void tell(Event event, std::uint32_t core, std::uint64_t line, std::uint64_t data,
            std::uint64_t count = 1) {
    if (count != 0 && monitors_.listens(event)) [[unlikely]]
      notify({event, core, line << machine_.line_bits(), data}, count);
  }
  void notify(const monitor::Happening& what, std::uint64_t count = 1);
  void tell_traffic(std::uint32_t core, std::uint64_t line, const Fill& fill, std::uint32_t bus);
  void tell_time(std::uint32_t core);
  void change_protocol();
  void finish(SystemRun& out);

  struct Told {
    std::uint64_t clock = 0, instructions = 0;
  };

  const ThreadStreams& streams_;
  Coherence& machine_;
  const SystemOptions& options_;
  monitor::Group& monitors_;
  SystemThreads threads_;
  std::vector<StoreBuffer> buffers_;  // by core
  std::vector<Told> told_;            // monitors, by core
  Resource bus_, memory_;
  machine::BusEvents seen_;
  bool watched_ = false;
  bool changing_ = false;
  std::uint32_t program_ = 0;
  std::uint64_t protocol_since_ = 0;
  SystemRun out_;
};

void System::start_monitors() {
  monitors_.set_feature(Feature::coherence, updates(machine_.protocol()));
  monitors_.set_feature(Feature::prefetch, options_.prefetch);
  monitors_.set_feature(Feature::replacement, options_.bimodal);
  machine_.insert_at_the_end(options_.bimodal);
  monitors_.on_act([this](const monitor::Act& act) { this->act(act); });
  watched_ = monitors_.size() > 0;
  monitors_.advance(kBootCycles);
  for (SystemThreads::Core& core : threads_.cores) core.clock = kBootCycles;
  for (Told& told : told_) told.clock = kBootCycles;
  protocol_since_ = kBootCycles;
}

void System::act(const monitor::Act& act) {
  const auto core = static_cast<std::size_t>(act.a);
  if (act.feature == Feature::coherence) {
    changing_ = true;
  } else if (act.feature == Feature::replacement) {
    machine_.insert_at_the_end(act.a != 0);
  } else if (act.feature == Feature::verdict && core < threads_.verdicts.size()) {
    threads_.verdicts[core] = act.b != 0;
  } else if (act.feature == Feature::interrupt && core < threads_.cores.size()) {
    ++out_.interrupts;
    threads_.cores[core].clock += options_.interrupt;
  }
}

// When the bus is drained, and without a flush.
void System::change_protocol() {
  changing_ = false;
  const bool to_updates = monitors_.feature(Feature::coherence) != 0;
  if (to_updates == updates(machine_.protocol())) return;
  ++out_.switches;
  const std::uint64_t now = std::max(bus_.free_at(), memory_.free_at());
  if (updates(machine_.protocol()) && now > protocol_since_)
    out_.update_cycles += now - protocol_since_;
  protocol_since_ = std::max(protocol_since_, now);
  bus_.hold_until(now);
  machine_.switch_protocol(to_updates ? Protocol::dragon : Protocol::moesi);
  if (options_.check && !machine_.check()) ++out_.illegal;
}

void System::notify(const monitor::Happening& what, std::uint64_t count) {
  std::uint64_t& clock = threads_.cores[what.core].clock;
  const std::uint64_t resumed = monitors_.notify(what, clock, count);
  clock = std::max(clock, resumed);
}

// What is only counted: time, instructions, and accesses by the state of their line.
void System::tell_time(std::uint32_t core) {
  Told& told = told_[core];
  const machine::BusEvents& now = machine_.events();
  const auto state = [&](State of) {
    const auto i = static_cast<unsigned>(of);
    return now.accesses[i] - std::exchange(seen_.accesses[i], now.accesses[i]);
  };
  tell(Event::owned_access, core, 0, 0, state(State::owned));
  tell(Event::shared_access, core, 0, 0, state(State::shared));
  const std::uint64_t clock = threads_.cores[core].clock;
  if (clock > told.clock) {
    tell(Event::cycles, core, 0, 0, clock - told.clock);
    told.clock = clock;
  }
  tell(Event::instructions, core, 0, 0, std::exchange(told.instructions, 0));
  if (changing_) change_protocol();
}

void System::tell_traffic(std::uint32_t core, std::uint64_t line, const Fill& fill,
                          std::uint32_t bus) {
  const machine::BusEvents& now = machine_.events();
  const auto fresh = [&](std::uint64_t machine::BusEvents::*what) {
    return now.*what - std::exchange(seen_.*what, now.*what);
  };
  const bool from_memory = fill.source == Source::memory || fill.source == Source::remote_memory;
  if (fill.source != Source::upgrade) tell(Event::l1_miss, core, line, 0);
  if (fill.source == Source::peer) tell(Event::peer_fill, core, line, 0);
  if (from_memory) {
    tell(Event::l2_miss, core, line, 0);
    tell(Event::memory_read, core, line, 0);
  }
  tell(Event::write_invalidate, core, line, 0, fresh(&machine::BusEvents::write_invalidates));
  tell(Event::write_update, core, line, 0, fresh(&machine::BusEvents::updates));
  tell(Event::memory_write, core, line, 0, fresh(&machine::BusEvents::write_backs));
  tell(Event::bus, core, line, bus);
  if (changing_) change_protocol();
}

// The bus, and memory's channel for what comes from there; when the line is there.
std::uint64_t System::transfer(std::uint64_t from, const Fill& fill, std::uint32_t bus) {
  const std::uint64_t start = bus_.take(from, bus);
  if (fill.source == Source::upgrade) return start + bus;  // no line travels
  if (fill.source != Source::memory && fill.source != Source::remote_memory)
    return start + fill.latency;
  return memory_.take(start, options_.memory_line) + fill.latency;
}

void System::prefetch(std::uint32_t core, std::uint64_t line) {
  const Fill fill = machine_.access(core, line, false);
  if (fill.source == Source::inner || fill.source == Source::cache) return;
  transfer(threads_.cores[core].clock, fill, options_.bus_line);
}

void System::leave_cache(std::uint32_t core, ThreadEvent kind, std::uint64_t line,
                         const Fill& fill) {
  const bool is_upgrade = fill.source == Source::upgrade;
  const bool word = kind != ThreadEvent::load && updates(machine_.protocol());
  const std::uint32_t bus =
      is_upgrade ? (word ? options_.bus_word : options_.bus_address) : options_.bus_line;
  std::uint64_t& clock = threads_.cores[core].clock;
  const std::uint64_t done = transfer(clock, fill, bus);
  out_.misses += !is_upgrade;
  clock = kind == ThreadEvent::store ? buffers_[core].add(clock, done) : std::max(clock, done);
  const std::uint64_t written = machine_.events().write_backs - out_.write_backs;
  if (written) {
    memory_.take(done, written * options_.memory_line);
    out_.write_backs += written;
  }
  if (watched_) tell_traffic(core, line, fill, bus);
  const bool wants_next = !is_upgrade && kind == ThreadEvent::load;
  if (wants_next && monitors_.feature(Feature::prefetch)) prefetch(core, line + 1);
}

void System::access(std::uint32_t core, std::uint64_t word) {
  const ThreadEvent kind = Packed::kind(word);
  const std::uint64_t line = Packed::line(word);
  const Fill fill = machine_.access(core, line, kind != ThreadEvent::load);
  ++out_.accesses;
  if (fill.source != Source::inner && fill.source != Source::cache) [[unlikely]]
    leave_cache(core, kind, line, fill);
  if (!watched_) return;
  if (kind != ThreadEvent::store) tell_access(Event::load, core, line);
  if (kind != ThreadEvent::load) tell_access(Event::store, core, line);
}

bool System::special(std::uint32_t core, std::uint64_t word) {
  SystemThreads::Thread& thread = threads_.threads[threads_.cores[core].running];
  const std::uint64_t number = Packed::number(word);
  switch (Packed::special(word)) {
    case Special::compute:
      threads_.cores[core].clock += number;
      told_[core].instructions += number;
      out_.instructions += number;
      return false;
    case Special::barrier:
      return threads_.at_barrier(core, number);
    case Special::when: {
      const ThreadStream::When& when = thread.stream->whens[number];
      const Event event = when.watched ? Event::watched : Event::software;
      if (watched_) notify({event, core, when.name, when.value, when.known});
      return false;
    }
    default:
      return threads_.at_wait(core, thread.stream->waits[number]);
  }
}

void System::run_core(std::uint32_t core, std::uint64_t until) {
  SystemThreads::Core& here = threads_.cores[core];
  const std::uint32_t number = here.running;
  SystemThreads::Thread& thread = threads_.threads[number];
  const std::vector<std::uint64_t>& events = thread.stream->events;
  while (here.clock <= until) {
    if (thread.next == events.size()) return threads_.finish(core);
    if (here.clock >= here.slice_end) return threads_.end_slice(core);
    const std::uint64_t word = events[thread.next++];
    if (Packed::kind(word) == ThreadEvent::special) {
      const bool stopped = special(core, word);
      if (thread.next >= thread.wake_at) threads_.wake_those_behind(number, here.clock);
      if (stopped) return;
    } else {
      const std::uint64_t gap = Packed::gap(word);
      here.clock += gap;
      out_.instructions += gap;
      told_[core].instructions += gap;
      access(core, word);
    }
    if (thread.next >= thread.wake_at) threads_.wake_those_behind(number, here.clock);
  }
}

Result<SystemRun> System::run() {
  while (!threads_.all_done()) {
    std::uint64_t until = 0;
    const std::uint32_t core = threads_.pick(until);
    if (core == SystemThreads::kNone)
      return Error{"the threads of the recording wait for each other", threads_.described(),
                   "record the program to its end, without --from and --skip"};
    const std::uint32_t program = threads_.threads[threads_.cores[core].running].stream->program;
    if (options_.sequential && program > program_) {
      program_ = program;
      if (program < options_.protocols.size()) {
        monitors_.set_feature(Feature::coherence, options_.protocols[program]);
        change_protocol();
      }
    }
    const std::uint64_t before = threads_.cores[core].clock;
    const bool together = threads_.memory_bound_running() > 1;
    run_core(core, std::min(until, before + kStretch) + kSlack);
    if (together) out_.together += threads_.cores[core].clock - before;
    if (watched_) tell_time(core);
  }
  finish(out_);
  return out_;
}

void System::finish(SystemRun& out) {
  for (const SystemThreads::Core& core : threads_.cores) {
    out.cycles = std::max(out.cycles, core.clock);
    out.idle.push_back(core.idle);
  }
  out.ended = threads_.ended;
  out.cycles = *std::max_element(out.ended.begin(), out.ended.end());
  monitors_.advance(out.cycles);
  out.cycles -= kBootCycles;
  for (std::uint64_t& ended : out.ended) ended -= std::min(ended, kBootCycles);
  if (updates(machine_.protocol()) && out.cycles + kBootCycles > protocol_since_)
    out.update_cycles += out.cycles + kBootCycles - protocol_since_;
  out.bus_busy = bus_.busy();
  out.bus_waits = bus_.waited();
  out.memory_busy = memory_.busy();
  out.memory_waits = memory_.waited();
  out.contexts = threads_.contexts;
  out.upgrades = machine_.events().upgrades;
  out.updates = machine_.events().updates;
  out.write_invalidates = machine_.events().write_invalidates;
  monitors_.on_act({});
}

}  // namespace

Result<SystemRun> run_system(const ThreadStreams& threads, const machine::MachineConfig& config,
                             const machine::ChipsConfig& chips, const SystemOptions& options,
                             monitor::Group& monitors) {
  auto machine = Coherence::make(config, chips);
  if (!machine) return machine.error();
  if (!options.protocols.empty())
    (*machine)->switch_protocol(options.protocols[0] ? Protocol::dragon : Protocol::moesi);
  System system(threads, **machine, options, monitors);
  return system.run();
}

}  // namespace stallscope::session
