// SPDX-License-Identifier: Apache-2.0
#include "session/quick.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <span>
#include <utility>

#include "sieve/sift.h"
#include "stallscope_records.h"

namespace stallscope::session {
namespace {

constexpr std::size_t kSpansMore = 4;  // are read behind the last
static_assert(CodeLines::kSlack >= SS_MOST_FETCHES);

// What was kept of accesses by the capture tool, see sieve/sift.h; loops that the compiler makes
// few instructions of.
struct Unpacked {
  std::uint32_t most = 0;   // of the numbers
  std::uint32_t marks = 0;  // of all
};
Unpacked unpack_numbers(const std::uint32_t* kept, std::uint32_t count, std::uint32_t* numbers,
                        ss_marks& marks) {
  Unpacked all;
  for (std::uint32_t i = 0; i < count; ++i) {
    numbers[i] = kept[i] & SS_KEPT_NUMBER;
    all.most = std::max(all.most, numbers[i]);
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    marks.of[i] = static_cast<std::uint8_t>(kept[i] >> SS_KEPT_SHIFT);
    all.marks |= kept[i] >> SS_KEPT_SHIFT;
  }
  return all;
}

}  // namespace

Quick::Quick(machine::Machine& machine, const stream::CodeTable& code, CodeLines& lines,
             probes::Buckets& buckets, probes::Sampler& sampler, unsigned event, bool alone)
    : code_(code),
      lines_(lines),
      buckets_(buckets),
      sampler_(sampler),
      foreseen_(sampler),
      event_line_(event < machine.config().caches.size() ? machine.config().caches[event].line : 0),
      passes_(machine, event),
      outcomes_(buckets),
      data_(machine::Passes::gates_of(machine).data),
      fetch_(machine::Passes::gates_of(machine).code),
      relay_([this](Turn& turn) { take(turn); }, alone) {
  sieve_.last_line = SS_NO_LINE;
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
  spans_.resize(spans_.size() - std::min(spans_.size(), kSpansMore));
  for (std::size_t i = spans_.size(); i < code_.operations.size(); ++i) {
    const stream::Operation& operation = code_.operations[i];
    const std::uint32_t size = operation.is_prefetch() ? SS_PREFETCH : operation.size;
    spans_.push_back(ss_span(size, operation.guarded));
    sizes_.push_back(size);
    if (!operation.is_prefetch()) continue;
    prefetches_ = true;
    new_prefetches_.push_back(static_cast<std::uint32_t>(i));
  }
  spans_.resize(spans_.size() + kSpansMore);
  for (std::size_t number = exits_.size(); number < code_.exits.size(); ++number) {
    const stream::Exit& exit = code_.exits[number];
    const auto lines = lines_.of(static_cast<std::uint32_t>(number));
    exits_.push_back(ss_sieve_exit_of(&fetch_.get(), lines.data(), lines.size(),
                                      lines_.first_of(static_cast<std::uint32_t>(number)),
                                      exit.first_operation, exit.operations,
                                      spans_.data() + exit.first_operation, exit.instructions));
  }
  sieve_.exits = exits_.data();
  sieve_.known = exits_.size();
  sieve_.lines = lines_.all();
  sieve_.spans = spans_.data();
}

std::size_t Quick::on_blocks(std::span<const std::uint64_t> words, std::uint64_t* taken) {
  // No block that is gathered at once is read behind the end if it begins before this.
  constexpr std::size_t kAtEnd = SS_MOST_AT_ONCE + SS_DATA_AT_ONCE;
  if (words.size() <= kAtEnd) return 0;
  const std::uint64_t* at = words.data();
  const std::uint64_t* const end = at + (words.size() - kAtEnd);
  for (;;) {
    at = ss_gather(&sieve_, at, end, taken, &gathered_);
    if (ss_has_room(gathered_.data, gathered_.fetches)) break;
    enter();
  }
  return static_cast<std::size_t>(at - words.data());
}

void Quick::on_block(std::uint32_t exit, const std::uint64_t* addresses) {
  const ss_sieve_exit& one = exits_[exit];
  if (!ss_has_room(gathered_.data, gathered_.fetches)) [[unlikely]]
    enter();
  if (one.length == SS_LARGE) [[unlikely]]
    return on_large_block(exit, addresses);
  std::uint64_t copied[SS_MOST_AT_ONCE + 3];  // some are read behind the end
  std::copy_n(addresses, one.length - 1u, copied);
  gathered_.data = ss_gather_one(&sieve_, &one, copied, &gathered_, gathered_.data,
                                 &gathered_.fetches, &sieve_.last_line);
  sieve_.instructions += one.instructions;
}

void Quick::count() { passes_.count(std::exchange(fetches_, 0)); }

// What is not gathered at once: much code, or more data than a batch holds.
void Quick::on_large_block(std::uint32_t exit, const std::uint64_t* addresses) {
  const stream::Exit& info = code_.exits[exit];
  const auto make_room = [this] {
    if (!ss_has_room(gathered_.data, gathered_.fetches)) enter();
  };
  for (const std::uint64_t line : lines_.of(exit)) {
    if (line == sieve_.last_line) continue;
    make_room();
    const std::uint64_t padded[SS_MOST_FETCHES] = {line};
    gathered_.fetches = ss_add_fetches(&gathered_, gathered_.fetches, gathered_.data, padded, 1);
    sieve_.last_line = line;
  }
  for (std::uint32_t done = 0; done < info.operations;) {
    make_room();
    const std::uint32_t part = std::min<std::uint32_t>(info.operations - done, SS_MOST_AT_ONCE);
    std::uint64_t copied[SS_MOST_AT_ONCE + 3];
    std::copy_n(addresses + done, part, copied);
    const std::uint32_t first = info.first_operation + done;
    gathered_.data =
        ss_add_data(&gathered_, gathered_.data, copied, part, first, spans_.data() + first);
    done += part;
  }
  sieve_.instructions += info.instructions;
}

// As a batch of its own.
Status Quick::on_sifted(const ss_sifted& sifted, std::string_view kept) {
  if (sifted.kept > SS_FIRST_FETCH || sifted.kept_fetches > SS_FIRST_FETCH ||
      kept.size() != (sifted.kept + sifted.kept_fetches) * SS_KEPT_BYTES)
    return Error{"the stream has sifted accesses of the wrong length", "", ""};
  if (gathered_.data + gathered_.fetches > 0) enter();
  if (sizes_.size() < code_.operations.size()) learn_exits();
  if (!unpack(sifted, reinterpret_cast<const std::uint64_t*>(kept.data())))
    return Error{"the stream has sifted accesses that cannot be", "", ""};
  sieve_.instructions += sifted.instructions;
  accesses_ += sifted.accesses;
  absent_ += sifted.absent;
  // Whoever sifted did not know what had been fetched last.
  fetches_ += sifted.fetches - (sifted.first_line == sieve_.last_line);
  sieve_.last_line = sifted.last_line;
  stale_ = true;
  pass(false);
  return Done{};
}

bool Quick::unpack(const ss_sifted& sifted, const std::uint64_t* addresses) {
  const auto data = static_cast<std::uint32_t>(sifted.kept),
             fetches = static_cast<std::uint32_t>(sifted.kept_fetches);
  const auto* const numbers = reinterpret_cast<const std::uint32_t*>(addresses + data + fetches);
  std::copy_n(addresses, data, gathered_.addresses);
  std::copy_n(addresses + data, fetches, gathered_.addresses + SS_FIRST_FETCH);
  const Unpacked of_data = unpack_numbers(numbers, data, gathered_.operations, batch_.lookups.data);
  const Unpacked of_code =
      unpack_numbers(numbers + data, fetches, gathered_.before, batch_.lookups.code);
  constexpr std::uint32_t kWide = SS_MARK_LINES | SS_MARK_PAGES;
  if (data > 0 && of_data.most >= sizes_.size()) return false;
  if (fetches > 0 && (of_code.most > data || of_code.marks & kWide)) return false;
  if (!std::is_sorted(gathered_.before, gathered_.before + fetches)) return false;
  for (std::uint32_t i = 0; (of_data.marks & kWide) && i < data; ++i)
    if (batch_.lookups.data.of[i] & kWide) [[unlikely]]
      batch_.last[i] = machine::last_byte(gathered_.addresses[i], sizes_[gathered_.operations[i]]);
  gathered_.data = data;
  gathered_.fetches = fetches;
  return true;
}

void Quick::enter(bool at_once) {
  if (std::exchange(stale_, false)) {
    data_.forget();
    fetch_.forget();
  }
  absent_ += ss_filter(&data_.get(), &fetch_.get(), &gathered_, sizes_.data(), batch_.last,
                       &batch_.lookups);
  accesses_ += gathered_.data;
  fetches_ += gathered_.fetches + gathered_.refetches;
  pass(at_once);
}

void Quick::pass(bool at_once) {
  Turn& turn = *own_;
  // Most batches are over before the next sample, even if everything in them is missed.
  passes_.list(batch_);
  passes_.enter(batch_, foreseen_.left() <= batch_.lines.count);
  if (passes_.watches_first()) foresee_samples(turn);
  machine::MissedOf missed(batch_, turn.missed);
  for (Deferred& deferred : deferred_) {
    missed.add_until(deferred.before);
    deferred.before = turn.missed.count;
    turn.deferred.push_back(deferred);
  }
  missed.add_rest();
  gathered_.data = gathered_.fetches = gathered_.refetches = 0;
  deferred_.clear();
  const bool enough = turn.missed.has_enough() || turn.deferred.size() >= machine::Missed::kEnough;
  if (!enough && !at_once) return;
  Turn& given = relay_.current();
  turn.missed.hand_over(given.missed);
  turn.missed.clear();
  given.deferred.swap(turn.deferred);
  given.victims.swap(turn.victims);
  given.operations = code_.operations.size();
  given.prefetches.swap(new_prefetches_);
  relay_.pass_on();
}

void Quick::foresee_samples(Turn& turn) {
  std::span<const std::uint32_t> missed(batch_.lines.entries, batch_.lines.count);
  if (prefetches_) {
    const auto counts = [&](std::uint32_t entry) {
      return sizes_[gathered_.operations[machine::index_of(entry)]] != SS_PREFETCH;
    };
    events_.clear();
    std::ranges::copy_if(missed, std::back_inserter(events_), counts);
    missed = events_;
  }
  std::uint64_t done = 0;
  while (foreseen_.left() <= missed.size() - done) {
    done += foreseen_.left();
    foreseen_.skip(foreseen_.left());
    foreseen_.take({});
    turn.victims.push_back(batch_.victims[machine::index_of(missed[done - 1])]);
  }
  foreseen_.skip(missed.size() - done);
}

void Quick::run() {
  enter(true);
  relay_.drain();
}

void Quick::take(Turn& turn) {
  const machine::Outcomes& outcomes = passes_.go_on(turn.missed);
  outcomes_.grow(turn.operations);
  for (const std::uint32_t operation : turn.prefetches) {
    if (is_prefetch_.size() <= operation) is_prefetch_.resize(operation + 1);
    is_prefetch_[operation] = true;
  }
  turn.prefetches.clear();
  std::uint32_t done = 0;
  turn.sampled = 0;
  for (const Deferred& deferred : turn.deferred) {
    visit(turn, outcomes, done, deferred.before);
    apply(deferred, buckets_);
    done = deferred.before;
  }
  visit(turn, outcomes, done, turn.missed.count);
  turn.deferred.clear();
  turn.victims.clear();
  turn.missed.clear();
}

void Quick::visit(Turn& turn, const machine::Outcomes& outcomes, std::uint32_t from,
                  std::uint32_t to) {
  const auto unsampled = [&](std::uint32_t end) {
    return is_prefetch_.empty() ? visit_unsampled<false>(turn.missed, outcomes, from, end)
                                : visit_unsampled<true>(turn.missed, outcomes, from, end);
  };
  while (from < to) {
    // Fewer accesses than it takes events.
    const auto quiet = std::min<std::uint64_t>(to - from, sampler_.left() - 1);
    if (quiet > 0) {
      const auto end = from + static_cast<std::uint32_t>(quiet);
      sampler_.skip(unsampled(end));
      from = end;
      continue;
    }
    if (unsampled(from + 1) && sampler_.count()) sample(turn, from, outcomes.of(from));
    ++from;
  }
}

template <bool Prefetches>
std::uint64_t Quick::visit_unsampled(const machine::Missed& missed,
                                     const machine::Outcomes& outcomes, std::uint32_t from,
                                     std::uint32_t to) {
  std::uint64_t events = 0;
  for (std::uint32_t index = from; index < to; ++index) {
    const std::uint32_t operation = missed.operations[index];
    const machine::Outcome outcome = outcomes.of(index);
    if (operation == machine::Missed::kFetch) [[unlikely]]
      continue;
    if (Prefetches && operation < is_prefetch_.size() && is_prefetch_[operation]) [[unlikely]] {
      ++prefetched_[outcome];
      continue;
    }
    outcomes_.count(missed.addresses[index], operation, outcome);
    events += meanings_[outcome].event;
  }
  return events;
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

void Quick::sample(Turn& turn, std::uint32_t index, machine::Outcome outcome) {
  const Meaning& meaning = meanings_[outcome];
  const machine::Missed& missed = turn.missed;
  std::uint64_t tag = machine::kEmpty;
  if (passes_.watches_first())
    tag = turn.victims[turn.sampled++];
  else if (event_line_ != 0)
    tag = missed.victims[index];
  const std::uint64_t victim = machine::line_of(tag) << std::countr_zero(std::max(event_line_, 1u));
  sampler_.take({.bucket = buckets_.find(missed.addresses[index]),
                 .victim = tag != machine::kEmpty ? buckets_.find_line(victim, event_line_)
                                                  : probes::kNoBucket,
                 .operation = missed.operations[index],
                 .latency = meaning.latency + meaning.translation,
                 .address = missed.addresses[index],
                 .served = meaning.served});
}

std::vector<Quick::Uncounted> Quick::uncounted() const {
  const machine::MachineConfig& config = passes_.config();
  std::vector<Uncounted> levels(config.caches.size() + config.tlbs.size());
  // From the core outwards: behind the first, a level is asked by what the one inside missed.
  const auto add = [&](const auto& path, std::size_t first) {
    const Uncounted* inside = nullptr;
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (!machine::on_data_path(path[i].holds)) continue;
      Uncounted& level = levels[first + i];
      for (unsigned outcome = 0; outcome < machine::kOutcomes; ++outcome)
        if (meanings_[outcome].missed >> (first + i) & 1) level.misses += prefetched_[outcome];
      if (inside) level.accesses = inside->misses;
      inside = &level;
    }
  };
  add(config.caches, 0);
  add(config.tlbs, config.caches.size());
  return levels;
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
