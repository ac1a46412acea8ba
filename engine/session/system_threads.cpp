// SPDX-License-Identifier: Apache-2.0
#include "session/system_threads.h"

#include <algorithm>

namespace stallscope::session {

SystemThreads::SystemThreads(const ThreadStreams& streams, std::uint32_t cores,
                             const SystemOptions& options)
    : cores(cores), verdicts(cores), streams_(streams), options_(options) {
  sleepers_.resize(streams.threads.size());
  left_of_.resize(streams.parties.size());
  ended.resize(streams.parties.size());
  std::uint32_t place = 0, program = ~0u;
  for (const ThreadStream& stream : streams.threads) {
    if (stream.program != program) place = 0;
    program = stream.program;
    threads.push_back({&stream});
    threads.back().core = place++ % cores;
    ++left_of_[program];
    ++left_;
  }
  for (std::uint32_t i = 0; i < left_of_.size(); ++i)
    if (i == 0 || !options.sequential) start_program(i, 0);
  for (std::size_t i = 1; i < this->cores.size() && options.shuffled; i += 2)
    std::reverse(this->cores[i].queue.begin(), this->cores[i].queue.end());
}

void SystemThreads::start_program(std::uint32_t program, std::uint64_t now) {
  for (std::uint32_t i = 0; i < threads.size(); ++i)
    if (threads[i].stream->program == program) make_ready(i, now);
}

void SystemThreads::make_ready(std::uint32_t thread, std::uint64_t now) {
  threads[thread].ready_at = now;
  threads[thread].waiting = false;
  cores[threads[thread].core].queue.push_back(thread);
}

std::uint32_t SystemThreads::pick(std::uint64_t& until) {
  std::uint32_t found = kNone;
  std::uint64_t first = ~std::uint64_t{0};
  until = ~std::uint64_t{0};
  for (std::uint32_t i = 0; i < cores.size(); ++i) {
    Core& core = cores[i];
    if (core.running == kNone && core.queue.empty()) continue;
    std::uint64_t at = core.clock;
    if (core.running == kNone) {
      std::uint64_t ready = ~std::uint64_t{0};
      for (const std::uint32_t thread : core.queue)
        ready = std::min(ready, threads[thread].ready_at);
      at = std::max(at, ready);
    }
    if (at < first) {
      until = first;
      first = at;
      found = i;
    } else {
      until = std::min(until, at);
    }
  }
  if (found != kNone && cores[found].running == kNone) {
    cores[found].idle += first - cores[found].clock;
    cores[found].clock = first;
    choose(found);
  }
  return found;
}

// Place in the queue of what is to run next.
std::size_t SystemThreads::choice(const Core& core) const {
  std::size_t first = core.queue.size();
  for (std::size_t i = 0; i < core.queue.size(); ++i) {
    const Thread& thread = threads[core.queue[i]];
    if (thread.ready_at > core.clock) continue;
    if (!options_.memory_bound || memory_bound_running_ == 0 || !thread.memory_bound) return i;
    first = std::min(first, i);
  }
  return first;
}

void SystemThreads::choose(std::uint32_t number) {
  Core& core = cores[number];
  const std::size_t place = choice(core);
  if (place < core.queue.size()) run(number, place);
}

void SystemThreads::run(std::uint32_t number, std::size_t place) {
  Core& core = cores[number];
  core.running = core.queue[place];
  core.queue.erase(core.queue.begin() + static_cast<std::ptrdiff_t>(place));
  memory_bound_running_ += threads[core.running].memory_bound;
  core.slice_end = options_.slice ? core.clock + options_.slice : ~std::uint64_t{0};
}

void SystemThreads::stop(std::uint32_t number) {
  memory_bound_running_ -= threads[cores[number].running].memory_bound;
  cores[number].running = kNone;
}

void SystemThreads::end_slice(std::uint32_t number) {
  Core& core = cores[number];
  const std::uint32_t was = core.running;
  Thread& thread = threads[was];
  stop(number);
  if (++thread.slices >= options_.load_up) thread.memory_bound = verdicts[number] != 0;
  thread.ready_at = core.clock;
  core.queue.push_back(was);
  choose(number);
  if (core.running == was) return;
  ++contexts;
  core.clock += options_.context;
}

bool SystemThreads::at_barrier(std::uint32_t number, std::uint64_t which) {
  const std::uint32_t me = cores[number].running;
  const std::uint32_t program = threads[me].stream->program;
  Barrier& barrier = barriers_[{program, which}];
  if (++barrier.arrived < streams_.parties[program]) {
    barrier.waiting.push_back(me);
    threads[me].waiting = true;
    stop(number);
    return true;
  }
  for (const std::uint32_t thread : barrier.waiting) make_ready(thread, cores[number].clock);
  barriers_.erase({program, which});
  return false;
}

bool SystemThreads::at_wait(std::uint32_t number, const ThreadStream::Wait& wait) {
  Thread& other = threads[wait.thread];
  if (other.done || other.next >= wait.index) return false;
  const std::uint32_t me = cores[number].running;
  sleepers_[wait.thread].push_back({me, wait.index});
  other.wake_at = std::min(other.wake_at, wait.index);
  threads[me].waiting = true;
  stop(number);
  return true;
}

void SystemThreads::wake_those_behind(std::uint32_t number, std::uint64_t now) {
  Thread& thread = threads[number];
  thread.wake_at = ~std::size_t{0};
  std::vector<Sleeper> left;
  for (const Sleeper& sleeper : sleepers_[number])
    if (thread.done || sleeper.behind <= thread.next) {
      make_ready(sleeper.thread, now);
    } else {
      left.push_back(sleeper);
      thread.wake_at = std::min(thread.wake_at, sleeper.behind);
    }
  sleepers_[number] = std::move(left);
}

std::string SystemThreads::described() const {
  std::string text;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    const Thread& thread = threads[i];
    if (thread.done) continue;
    text += (text.empty() ? "thread " : ", thread ") + std::to_string(thread.stream->number) +
            " at event " + std::to_string(thread.next) + " of " +
            std::to_string(thread.stream->events.size());
    if (thread.next == 0) continue;
    const std::uint64_t word = thread.stream->events[thread.next - 1];
    if (Packed::kind(word) != ThreadEvent::special) continue;
    const bool barrier = Packed::special(word) == Special::barrier;
    text += (barrier ? ", a barrier, number " : ", a wait, number ") +
            std::to_string(Packed::number(word));
    if (barrier) continue;
    const ThreadStream::Wait& wait = thread.stream->waits[Packed::number(word)];
    text += " for thread " + std::to_string(threads[wait.thread].stream->number) + " to reach " +
            std::to_string(wait.index);
  }
  return text;
}

void SystemThreads::finish(std::uint32_t number) {
  const std::uint32_t me = cores[number].running;
  const std::uint64_t now = cores[number].clock;
  const std::uint32_t program = threads[me].stream->program;
  threads[me].done = true;
  stop(number);
  wake_those_behind(me, now);
  --left_;
  ended[program] = std::max(ended[program], now);
  if (--left_of_[program] == 0 && options_.sequential && program + 1 < left_of_.size())
    start_program(program + 1, ended[program]);
}

}  // namespace stallscope::session
