// SPDX-License-Identifier: Apache-2.0
// The back: a bundle is dispatched, its operations are issued, it retires, and the cycles that it
// kept others waiting are charged.
#include <algorithm>

#include "pipeline/pipeline.h"

namespace stallscope::pipeline {

void Pipeline::close() {
  if (size_ == 0) return;
  const std::uint64_t dispatched = dispatch();
  for (unsigned i = 0; i < size_; ++i) issue(i, dispatched);
  const std::uint64_t resolved = slots_[size_ - 1].done.finish;
  retire(dispatched);
  ++number_;
  size_ = 0;
  instructions_ = 0;
  needs_ = {};
  missed_at_ = mispredicted_at_ = kNever;
  switched_ = false;
  if (redirected_) {
    redirected_ = false;
    mispredicted_at_ = resolved;
    mispredicted_by_ = branch_index_;
    go_wrong(resolved);
    fetch_cycle_ = std::max(fetch_cycle_, resolved + 1);
    fetched_ = 0;
  }
  count_time();
}

// Where both ways behind a mispredicted branch meet, the core has gone on before it is resolved.
void Pipeline::go_wrong(std::uint64_t resolved) {
  if (!config_.wrong_paths || options_.mode == Mode::inorder) return;
  const CoreInstruction& branch = lowered_.instructions[branch_index_];
  if (branch.flow != code::WorkFlow::kConditional) return wrong_paths_.end();
  wrong_paths_.begin(meetings_.of(branch), fetch_cycle_, resolved, ready_);
}

std::uint64_t Pipeline::dispatch() {
  const std::uint64_t fetched = fetch_cycle_ + config_.front_end;
  std::uint64_t cycle = std::max(fetched, dispatched_ + 1);
  cycle = wait_for_entries(cycle);
  cycle = wait_for_queues(cycle);
  calendar_.enter(static_cast<std::uint32_t>(needs_.packed));
  dispatched_ = cycle;
  // Fetch goes on when a bundle has left the stages and the buffer in front of dispatch.
  const std::uint64_t mask = dispatch_cycles_.size() - 1;
  dispatch_cycles_[number_ & mask] = cycle;
  const std::uint64_t left = dispatch_cycles_[(number_ + 1 - in_front_) & mask];
  if (left > fetch_cycle_) {
    fetch_cycle_ = left;
    fetched_ = 0;
  }
  return cycle;
}

// Entries that are left in order: of the reorder buffer, rename registers, loads, stores.
std::uint64_t Pipeline::wait_for_entries(std::uint64_t cycle) {
  const std::uint32_t wanted[] = {needs_.of(Needs::kRegisters), needs_.of(Needs::kLoads),
                                  needs_.of(Needs::kStores)};
  const std::uint32_t limits[] = {config_.rename, config_.loads, config_.stores};
  const auto mask = window_.size() - 1;
  for (;;) {
    Event reason;
    if (config_.loose_rob ? held_operations_ + size_ > config_.rob * config_.bundle
                          : number_ - oldest_ >= config_.rob)
      reason = Event::dispatch_rob;
    else if (held_[0] + wanted[0] > limits[0])
      reason = Event::dispatch_rename;
    else if (held_[1] + wanted[1] > limits[1] || held_[2] + wanted[2] > limits[2])
      reason = Event::dispatch_buffers;
    else
      break;
    const Retired& first = window_[oldest_++ & mask];
    held_[0] -= first.needs.of(Needs::kRegisters);
    held_[1] -= first.needs.of(Needs::kLoads);
    held_[2] -= first.needs.of(Needs::kStores);
    held_operations_ -= first.operations;
    if (first.cycle + 1 > cycle) {
      events_[reason] += first.cycle + 1 - cycle;
      cycle = first.cycle + 1;
    }
  }
  for (unsigned i = 0; i < 3; ++i) held_[i] += wanted[i];
  held_operations_ += size_;
  return cycle;
}

std::uint64_t Pipeline::wait_for_queues(std::uint64_t cycle) {
  calendar_.advance(cycle);
  const auto wanted = static_cast<std::uint32_t>(needs_.packed);
  while (!calendar_.has_room(wanted)) {
    calendar_.advance(++cycle);
    ++events_[Event::dispatch_queues];
  }
  return cycle;
}

void Pipeline::issue(unsigned index, std::uint64_t dispatched) {
  Slot& slot = slots_[index];
  const MicroOp& op = *slot.op;
  std::uint64_t cycle = dispatched;
  if (options_.mode == Mode::inorder) cycle = std::max(cycle, retired_);
  std::uint64_t writer = kNever;
  for (const std::uint8_t source : op.sources) {
    if (ready_[source] <= cycle) continue;
    cycle = ready_[source];
    writer = writer_[source];
  }
  slot.waited = writer >> 8 == number_ ? static_cast<int>(writer & 0xff) : -1;
  if (op.unit != kNoUnit) {
    cycle = calendar_.take(op.unit, cycle, op.occupies);
    calendar_.leave(op.unit, cycle);
    ++events_.values[static_cast<unsigned>(Event::iu_operations) + op.unit];
    events_[Event::divides] += op.divides;
  }
  slot.issued = cycle;
  if (slot.ahead) [[unlikely]]
    execute_ahead(slot);
  else
    execute(slot);
  const std::uint64_t tag = number_ << 8 | index;
  for (const std::uint8_t result : op.results) {
    ready_[result] = slot.done.finish;
    writer_[result] = tag;
  }
  ready_[op.stepped] = cycle + 1;
  writer_[op.stepped] = tag;
}

void Pipeline::execute(Slot& slot) {
  const MicroOp& op = *slot.op;
  const bool accesses = slot.address != machine::kNoAddress;
  if (op.kind == MicroKind::load && accesses)
    slot.done = memory_.load(slot.address, slot.size, slot.issued);
  else if (op.kind == MicroKind::store && accesses)
    slot.done = memory_.store(slot.address, slot.size, slot.issued);
  else if (op.kind == MicroKind::prefetch && accesses)
    slot.done = memory_.prefetch(slot.address, slot.issued);
  else if (op.kind == MicroKind::load)
    slot.done = Finished{slot.issued + memory_.hit()};  // whose address nobody knows
  else
    slot.done = Finished{slot.issued + op.latency};
}

// A load that was executed on a wrong path finds its line there, or on its way.
void Pipeline::execute_ahead(Slot& slot) {
  const MicroOp& op = *slot.op;
  const bool loads = op.kind == MicroKind::load && slot.address != machine::kNoAddress;
  const std::uint64_t first = loads ? wrong_paths_.first_issue(slot.ahead, op) : slot.issued;
  std::uint64_t arrival = 0;
  if (first < slot.issued) {
    const std::uint64_t hit = slot.issued + memory_.hit();
    slot.done = memory_.load(slot.address, slot.size, first);
    slot.done.rejected = 0;
    arrival = slot.done.finish;
    if (arrival <= hit) slot.done = Finished{hit};
  } else {
    execute(slot);
    if (loads) arrival = slot.done.finish;
  }
  const std::uint64_t latency = op.kind == MicroKind::load ? memory_.hit() : op.latency;
  wrong_paths_.executed(slot.ahead, op, latency, arrival, slot.done.finish);
}

void Pipeline::retire(std::uint64_t dispatched) {
  std::uint64_t finished = 0;
  for (unsigned i = 0; i < size_; ++i) finished = std::max(finished, slots_[i].done.finish);
  const std::uint64_t cycle = std::max(finished, retired_ + 1);
  if (cycle > retired_ + 1) charge_stall(retired_ + 1, cycle, dispatched);
  for (unsigned i = 0; i < size_; ++i)
    if (slots_[i].op->kind == MicroKind::store && slots_[i].address != machine::kNoAddress)
      memory_.retire(slots_[i].done, cycle);
  retired_ = cycle;
  window_[number_ & (window_.size() - 1)] = {cycle, needs_, size_};
  events_[Event::cycles] = cycle;
  events_[Event::instructions] += instructions_;
  events_[Event::micro_operations] += size_;
  ++events_[Event::completion_cycles];
}

void Pipeline::charge_stall(std::uint64_t from, std::uint64_t until, std::uint64_t dispatched) {
  const std::uint64_t held = std::clamp(dispatched, from, until);
  if (held > from) charge_empty(from, held);
  if (until > held) charge_waiting(held, until);
}

// The reorder buffer is empty: the most recent event of the front is to blame, cycle by cycle.
void Pipeline::charge_empty(std::uint64_t from, std::uint64_t until) {
  if (switched_) {
    switch_cycles_ += until - from;
    return;
  }
  events_[Event::empty_cycles] += until - from;
  if (missed_at_ != kNever) {
    const std::uint64_t start =
        mispredicted_at_ == kNever ? from : std::clamp(missed_at_, from, until);
    if (start > from) charge(Cause::branch_mispredict, start - from, mispredicted_by_);
    if (until > start) charge(Cause::inst_cache, until - start, missed_by_);
  } else if (mispredicted_at_ != kNever) {
    charge(Cause::branch_mispredict, until - from, mispredicted_by_);
  } else {
    charge(Cause::other, until - from, slots_[0].instruction);
  }
}

unsigned Pipeline::last_finished() const {
  unsigned last = 0;
  for (unsigned i = 1; i < size_; ++i) {
    const std::uint64_t a = slots_[i].done.finish, b = slots_[last].done.finish;
    if (a > b || (a == b && cause_of(slots_[i]) < cause_of(slots_[last]))) last = i;
  }
  return last;
}

Cause Pipeline::cause_of(const Slot& slot) const {
  switch (static_cast<Unit>(slot.op->unit)) {
    case Unit::iu:
      return Cause::iu;
    case Unit::fpu:
      return Cause::fpu;
    case Unit::lsu:
      return slot.done.cause;
    default:
      return Cause::other;
  }
}

// From the operation that finished last backwards: the cycles in which it could have been in its
// unit are its own, those before are of the operation in its bundle that it waited for, if any.
void Pipeline::charge_waiting(std::uint64_t from, std::uint64_t until) {
  int index = static_cast<int>(last_finished());
  while (until > from) {
    const Slot& slot = slots_[index];
    const bool hands_on = config_.follow_chain && slot.waited >= 0;
    const std::uint64_t issued = std::clamp(slot.issued, from, until);
    const std::uint64_t through = std::clamp(slot.issued + slot.done.rejected, from, until);
    const std::uint64_t start =
        hands_on ? std::clamp(slots_[slot.waited].done.finish, from, issued) : from;
    if (until > through) charge(cause_of(slot), until - through, slot.instruction, &slot);
    if (through > issued) charge(Cause::rejection, through - issued, slot.instruction, &slot);
    if (issued > start) charge(cause_of(slot), issued - start, slot.instruction, &slot);
    until = start;
    index = slot.waited;
  }
}

void Pipeline::charge(Cause cause, std::uint64_t cycles, std::uint32_t instruction,
                      const Slot* slot) {
  const unsigned which = static_cast<unsigned>(cause);
  events_[Event::stall_cycles] += cycles;
  events_.values[static_cast<unsigned>(Event::stall_data_cache) + which] += cycles;
  charged_[instruction * std::size_t{kCauses} + which] += cycles;
  const bool by_data = cause == Cause::data_cache && slot->done.source < source_cycles_.size();
  if (by_data) source_cycles_[slot->done.source] += cycles;
  if (watcher_)
    watcher_->on_stall({cause, by_data ? slot->done.source : kNoSource, instruction, cycles,
                        slot && slot->op->unit == static_cast<std::uint8_t>(Unit::lsu)
                            ? slot->address
                            : machine::kNoAddress});
}

}  // namespace stallscope::pipeline
