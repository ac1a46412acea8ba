// SPDX-License-Identifier: Apache-2.0
#include "target/threads.h"

#include <algorithm>

namespace stallscope::target {

Threads::Thread* Threads::find(std::uint32_t number) {
  auto at = std::lower_bound(threads_.begin(), threads_.end(), number,
                             [](const Thread& t, std::uint32_t n) { return t.number < n; });
  return at != threads_.end() && at->number == number ? &*at : nullptr;
}

const Threads::Thread* Threads::find(std::uint32_t number) const {
  return const_cast<Threads*>(this)->find(number);
}

void Threads::start(Thread thread) {
  if (find(thread.number)) return;
  auto at = std::upper_bound(threads_.begin(), threads_.end(), thread.number,
                             [](std::uint32_t n, const Thread& t) { return n < t.number; });
  threads_.insert(at, std::move(thread));
}

void Threads::exit(std::uint32_t number, std::uint64_t when) {
  if (Thread* thread = find(number)) thread->ended = when;
}

void Threads::rename(std::uint32_t number, std::string_view name) {
  if (Thread* thread = find(number)) thread->name = name;
}

void Threads::finish(std::uint64_t when) {
  if (Thread* thread = find(running_)) thread->instructions += when - turn_started_;
  turn_started_ = when;
}

void Threads::run(std::uint32_t number, std::uint64_t when) {
  finish(when);
  running_ = number;
  turn_started_ = when;
  if (Thread* thread = find(number)) ++thread->turns;
}

void Threads::fill(ThreadTable& table) const {
  for (const Thread& t : threads_)
    table.append({t.number, t.lwp, t.name, t.parent, t.started, t.ended, t.instructions, t.turns});
}

}  // namespace stallscope::target
