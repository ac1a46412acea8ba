// SPDX-License-Identifier: Apache-2.0
#include "session/quick.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "stallscope_records.h"

namespace stallscope::session {
namespace {

constexpr std::size_t kSpansMore = 4;  // are read behind the last

}  // namespace

Quick::Quick(machine::Machine& machine, const stream::CodeTable& code, CodeLines& lines,
             const std::vector<machine::Step>& steps, probes::Buckets& buckets,
             probes::Sampler& sampler, unsigned event)
    : code_(code),
      lines_(lines),
      steps_(steps),
      buckets_(buckets),
      sampler_(sampler),
      event_line_(event < machine.config().caches.size() ? machine.config().caches[event].line : 0),
      passes_(machine, event),
      outcomes_(buckets),
      relay_([this](Turn& turn) { take(turn); }) {
  for (unsigned i = 0; i < meanings_.size(); ++i)
    meanings_[i] = meaning_of(machine, static_cast<machine::Outcome>(i), event);
}

Quick::Meaning Quick::meaning_of(const machine::Machine& machine, machine::Outcome outcome,
                                 unsigned event) const {
  const machine::MachineConfig& config = machine.config();
  Meaning meaning;
  std::uint32_t depth = 0;
  meaning.latency = config.memory_latency;
  meaning.served = probes::kServedByMemory;
  for (std::uint32_t i = 0; i < config.caches.size(); ++i) {
    if (!machine::on_data_path(config.caches[i].holds)) continue;
    if (depth++ == passes_.depth_of(outcome)) {
      meaning.latency = config.caches[i].latency;
      meaning.served = static_cast<std::uint8_t>(i);
      break;
    }
    meaning.missed |= 1u << i;
  }
  depth = 0;
  meaning.translation = config.page_walk_latency;
  bool translates = false;
  for (std::uint32_t i = 0; i < config.tlbs.size(); ++i) {
    if (!machine::on_data_path(config.tlbs[i].holds)) continue;
    translates = true;
    if (depth++ == passes_.translation_depth_of(outcome)) {
      meaning.translation = depth == 1 ? 0 : config.tlbs[i].latency;
      break;
    }
    meaning.missed |= 1u << (config.caches.size() + i);
  }
  if (!translates) meaning.translation = 0;
  meaning.event = meaning.missed >> event & 1;
  return meaning;
}

void Quick::learn_exits() {
  for (std::size_t number = prepared_.size(); number < code_.exits.size(); ++number) {
    const stream::Exit& exit = code_.exits[number];
    const auto lines = lines_.of(static_cast<std::uint32_t>(number));
    const bool large =
        exit.operations > machine::Batch::kMost || lines.size() > machine::Batch::kFetchesAtOnce;
    prepared_.push_back({.first_line = lines.empty() ? kNothing : lines.front(),
                         .last_line = lines.empty() ? kNoLine : lines.back(),
                         .first_operation = exit.first_operation,
                         .lines_at = lines_.first_of(static_cast<std::uint32_t>(number)),
                         .length = large ? kLarge : static_cast<std::uint16_t>(exit.operations + 1),
                         .lines = static_cast<std::uint16_t>(lines.size()),
                         .instructions = exit.instructions});
  }
  spans_.resize(spans_.size() - std::min(spans_.size(), kSpansMore));
  for (std::size_t i = spans_.size(); i < code_.operations.size(); ++i)
    spans_.push_back(
        machine::Batch::span_of(code_.operations[i].size, code_.operations[i].guarded));
  spans_.resize(spans_.size() + kSpansMore);
}

std::size_t Quick::on_blocks(std::span<const std::uint64_t> words, std::uint64_t* taken) {
  // No block that is added at once reads behind the end if it begins before this.
  constexpr std::size_t kAtEnd = machine::Batch::kMost + 4;
  if (words.size() <= kAtEnd) return 0;
  const std::uint64_t* at = words.data();
  const std::uint64_t* const end = at + (words.size() - kAtEnd);
  const Prepared* const prepared = prepared_.data();
  const Tables tables = this->tables();
  const std::uint64_t exits = prepared_.size();
  for (;;) {
    machine::Batch& batch = batch_;
    machine::Batch::Place place = place_;
    std::uint64_t last_line = last_line_, instructions = 0;
    while (at < end && place.has_room()) {
      const std::uint64_t head = *at ^ SS_BLOCK_TAG << 56;  // length and exit, if it is a block
      const std::uint32_t exit = SS_HEAD_THREAD(head);
      if (exit >= exits) break;
      const Prepared& one = prepared[exit];
      if (one.length != head >> 32) break;
      ++taken[exit];
      instructions += one.instructions;
      last_line = add(batch, place, one, tables, at + 1, last_line);
      at += head >> 32;
    }
    place_ = place;
    last_line_ = last_line;
    instructions_ += instructions;
    if (place.has_room()) break;
    enter();
  }
  return static_cast<std::size_t>(at - words.data());
}

void Quick::count() { passes_.count(std::exchange(fetches_, 0)); }

// What is not added at once: much code, or more data than a batch holds.
void Quick::on_large_block(std::uint32_t exit, const std::uint64_t* addresses) {
  using machine::Batch;
  const stream::Exit& info = code_.exits[exit];
  const auto make_room = [this] {
    if (!place_.has_room()) enter();
  };
  for (const std::uint64_t line : lines_.of(exit)) {
    if (line == last_line_) continue;
    make_room();
    const std::uint64_t padded[Batch::kFetchesAtOnce] = {line};
    batch_.add_fetches(place_, padded, 1);
    last_line_ = line;
  }
  for (std::uint32_t done = 0; done < info.operations;) {
    make_room();
    const std::uint32_t part = std::min(info.operations - done, Batch::kMost);
    std::uint64_t copied[Batch::kMost + 3];
    std::copy_n(addresses + done, part, copied);
    const std::uint32_t first = info.first_operation + done;
    batch_.add_data(place_, copied, part, first, spans_.data() + first);
    done += part;
  }
  instructions_ += info.instructions;
}

void Quick::enter(bool at_once) {
  Turn& turn = relay_.current();
  const machine::Batch::Place size = std::exchange(place_, {});
  accesses_ += size.data;
  fetches_ += size.fetches;
  passes_.enter(batch_, size, steps_.data());
  const Deferred* next = deferred_.data();
  const Deferred* const end = next + deferred_.size();
  passes_.add_missed(batch_, size, turn.missed, [&](std::uint32_t index, std::uint32_t added) {
    for (; next != end && next->before <= index; ++next) {
      turn.deferred.push_back(*next);
      turn.deferred.back().before = added;
    }
  });
  deferred_.clear();
  const bool enough = turn.missed.has_enough() || turn.deferred.size() >= machine::Missed::kEnough;
  if (!enough && !at_once) return;
  turn.operations = code_.operations.size();
  relay_.pass_on();
}

void Quick::run() {
  enter(true);
  relay_.drain();
}

void Quick::take(Turn& turn) {
  const machine::Outcomes& outcomes = passes_.go_on(turn.missed);
  outcomes_.grow(turn.operations);
  std::uint32_t done = 0;
  for (const Deferred& deferred : turn.deferred) {
    visit(turn.missed, outcomes, done, deferred.before);
    apply(deferred, buckets_);
    done = deferred.before;
  }
  visit(turn.missed, outcomes, done, turn.missed.count);
  turn.deferred.clear();
  turn.missed.clear();
}

void Quick::visit(const machine::Missed& missed, const machine::Outcomes& outcomes,
                  std::uint32_t from, std::uint32_t to) {
  for (std::uint32_t index = from; index < to; ++index) {
    const std::uint32_t operation = missed.operations[index];
    const machine::Outcome outcome = outcomes.of(index);
    if (operation == machine::Missed::kFetch) [[unlikely]]
      continue;
    outcomes_.count(missed.addresses[index], operation, outcome);
    if (meanings_[outcome].event && sampler_.count()) [[unlikely]]
      sample(missed, index, outcome);
  }
}

void Quick::apply(const Deferred& deferred, probes::Buckets& buckets) {
  switch (deferred.change) {
    case Change::allocate:
      buckets.allocate(deferred.address, deferred.size, deferred.site);
      return;
    case Change::revive:
      return buckets.revive(deferred.address);
    case Change::release:
      return buckets.release(deferred.address);
    case Change::unmap:
      return buckets.unmap(deferred.address, deferred.size);
  }
}

void Quick::sample(const machine::Missed& missed, std::uint32_t index, machine::Outcome outcome) {
  const Meaning& meaning = meanings_[outcome];
  const bool threw_out = event_line_ != 0 && missed.victims[index] != machine::kEmpty;
  const std::uint64_t victim = machine::line_of(missed.victims[index])
                               << std::countr_zero(std::max(event_line_, 1u));
  sampler_.take({.bucket = buckets_.find(missed.addresses[index]),
                 .victim = threw_out ? buckets_.find_line(victim, event_line_) : probes::kNoBucket,
                 .operation = missed.operations[index],
                 .latency = meaning.latency + meaning.translation,
                 .address = missed.addresses[index],
                 .served = meaning.served});
}

void Quick::add_to(probes::Misses& misses) const {
  outcomes_.for_each([&](std::uint32_t region, probes::BucketId bucket, std::uint32_t operation,
                         machine::Outcome outcome, std::uint64_t times) {
    const Meaning& meaning = meanings_[outcome];
    misses.enter(region);
    misses.add(bucket, operation, meaning.missed, meaning.latency, meaning.translation, times);
  });
}

}  // namespace stallscope::session
