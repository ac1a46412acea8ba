// SPDX-License-Identifier: Apache-2.0
#include "machine/coherence.h"

#include <bit>

namespace stallscope::machine {
namespace {

constexpr std::uint32_t kFrontEvery = 32;  // of lines that come in at the end otherwise

}  // namespace

Result<std::unique_ptr<Coherence>> Coherence::make(const MachineConfig& config,
                                                   const ChipsConfig& chips, bool values) {
  auto plan = plan_of(config, chips);
  if (!plan) return plan.error();
  std::unique_ptr<Coherence> made(new Coherence(chips, *plan, config.mapping.random, values));
  made->latency_[static_cast<unsigned>(Source::memory)] = config.memory_latency;
  if (!chips.remote_memory_latency)
    made->latency_[static_cast<unsigned>(Source::remote_memory)] = config.memory_latency;
  return made;
}

Coherence::Coherence(const ChipsConfig& chips, const ChipsPlan& plan, bool scattered, bool values)
    : config_(chips), protocol_(chips.protocol), values_(values) {
  line_bits_ = static_cast<std::uint32_t>(std::countr_zero(plan.coherent.line));
  page_bits_ = static_cast<std::uint32_t>(std::countr_zero(chips.page));
  cores_per_agent_ = plan.coherent_shared ? chips.cores : 1;
  const std::uint32_t page_lines =
      scattered && page_bits_ > line_bits_ ? page_bits_ - line_bits_ : 0;
  // A core's first cache is looked up by virtual addresses, the others by physical ones.
  const auto made = [&](const CacheConfig& cache, bool first) {
    return Ways(cache.size / cache.line, cache.ways, values, first ? 0 : page_lines);
  };
  agents_of_chip_.resize(chips.chips);
  for (std::uint32_t core = 0; core < chips.all_cores(); ++core) {
    chip_.push_back(static_cast<std::uint8_t>(core / chips.cores));
    agent_.push_back(static_cast<std::uint8_t>(core / cores_per_agent_));
    if (plan.inner) inner_.push_back(made(*plan.inner, true));
    if (core % cores_per_agent_) continue;
    caches_.push_back(made(plan.coherent, !plan.inner));
    agent_chip_.push_back(chip_.back());
    agents_of_chip_[chip_.back()] |= bit(agent_.back());
  }
  inner_allocates_ = !plan.inner || plan.inner->write_allocate;
  if (plan.outer) {
    outer_exclusive_ = plan.outer->inclusion == Inclusion::exclusive;
    outer_inclusive_ = plan.outer->inclusion == Inclusion::inclusive;
    for (std::uint32_t chip = 0; chip < chips.chips; ++chip)
      outer_.push_back(made(*plan.outer, false));
  }
  const std::uint32_t behind = plan.outer ? plan.outer->latency : plan.coherent.latency;
  const std::uint32_t peer = chips.peer_latency ? chips.peer_latency : behind;
  const std::uint32_t remote = chips.remote_latency ? chips.remote_latency : 2 * peer;
  first_latency_ = plan.inner ? plan.inner->latency : plan.coherent.latency;
  const std::uint32_t latencies[kSources] = {
      first_latency_,
      plan.coherent.latency,
      peer,
      behind,
      remote,
      chips.remote_outer_latency ? chips.remote_outer_latency : remote,
      0,
      chips.remote_memory_latency,
      0};
  std::copy(latencies, latencies + kSources, latency_);
}

Coherence::Entry& Coherence::entry_of(std::uint64_t line, std::uint32_t chip) {
  const auto [entry, fresh] = directory_.try_emplace(line);
  if (fresh) {
    const auto [home, untouched] = pages_.try_emplace(line << line_bits_ >> page_bits_);
    if (untouched) *home = static_cast<std::uint8_t>(chip);
    entry->home = *home;
  }
  return *entry;
}

void Coherence::place_page(std::uint64_t address, std::uint32_t chip) {
  *pages_.try_emplace(address >> page_bits_).first = static_cast<std::uint8_t>(chip);
}

Fill Coherence::access_slowly(std::uint32_t core, std::uint64_t line, bool writes) {
  Ways& first = inner_.empty() ? caches_[agent_of(core)] : inner_[core];
  const std::size_t inside = first.find(line);
  const State state = inside == Ways::kNowhere ? State::invalid : first.state(inside);
  ++events_.accesses[static_cast<unsigned>(state)];
  if (state != State::invalid && (!writes || state == State::modified)) {
    first.touch(inside);
    return {Source::inner, chip_[core], first_latency_};
  }
  const std::size_t at = inner_.empty() ? inside : caches_[agent_of(core)].find(line);
  return at == Ways::kNowhere ? miss(core, line, writes) : hit(core, line, at, writes);
}

// The coherent cache has the line.
Fill Coherence::hit(std::uint32_t core, std::uint64_t line, std::size_t at, bool writes) {
  const std::uint32_t agent = agent_of(core);
  Ways& cache = caches_[agent];
  at = cache.touch(at);
  State state = cache.state(at);
  Fill done = fill(Source::cache, chip_[core]);
  if (writes && state != State::modified) {
    Entry& entry = entry_of(line, chip_[core]);
    State to = State::modified;
    if (state == State::exclusive) {
      drop_outer(line, entry, entry.outer);
    } else {
      ++events_.upgrades;
      to = announce(agent, line, entry, &done);
    }
    count(state, to);
    cache.set_state(at, to);
    state = to;
  }
  show_inside(core, line, state, writes);
  return done;
}

Fill Coherence::miss(std::uint32_t core, std::uint64_t line, bool writes) {
  const std::uint32_t agent = agent_of(core), chip = chip_[core];
  Entry& entry = entry_of(line, chip);
  ++(writes ? events_.read_exclusives : events_.reads);
  Got got = get(agent, line, entry);
  if (writes) {
    const bool alone = entry.holders == 0;
    if (alone && updates()) {
      drop_outer(line, entry, entry.outer);
      got.state = State::modified;
    } else {
      got.state = announce(agent, line, entry, nullptr);
    }
  } else if (!outer_.empty() && !outer_exclusive_) {
    if (got.state != State::modified && got.state != State::owned)
      fill_outer(chip, line, got.value, false);
  }
  entry.holders |= bit(agent);
  if (got.state != State::shared) entry.owner = static_cast<std::uint8_t>(agent);
  bring_in(agent, line, got);
  show_inside(core, line, got.state, writes);
  return got.fill;
}

State Coherence::announce(std::uint32_t agent, std::uint64_t line, Entry& entry, Fill* farthest) {
  const std::uint32_t chip = chip_of_agent(agent);
  if (farthest) {
    const bool remote = (entry.holders & ~agents_of_chip_[chip]) || (entry.outer & ~bit(chip));
    const bool peer = (entry.holders & ~bit(agent)) != 0;
    const Source heard = remote ? Source::remote_cache : peer ? Source::peer : Source::cache;
    *farthest = {Source::upgrade, static_cast<std::uint8_t>(chip), latency_of(heard)};
  }
  const State state =
      updates() ? update_others(agent, line, entry) : invalidate_others(agent, line, entry);
  entry.owner = static_cast<std::uint8_t>(agent);
  return state;
}

State Coherence::invalidate_others(std::uint32_t agent, std::uint64_t line, Entry& entry) {
  const std::uint64_t others = entry.holders & ~bit(agent);
  if (others || (entry.outer & ~bit(chip_of_agent(agent)))) ++events_.write_invalidates;
  each_agent(others, [&](std::uint32_t other) { remove(other, line); });
  entry.holders &= bit(agent);
  drop_outer(line, entry, entry.outer);
  return State::modified;
}

// Copies in outermost caches are not worth an update.
State Coherence::update_others(std::uint32_t agent, std::uint64_t line, Entry& entry) {
  const std::uint64_t others = entry.holders & ~bit(agent);
  ++events_.updates;
  drop_outer(line, entry, entry.outer);
  each_agent(others, [&](std::uint32_t other) {
    restate(other, line, State::shared);
    if (!values_) return;
    caches_[other].set_value(caches_[other].find(line), writing_);
    for (std::uint32_t i = 0; i < cores_per_agent_ && !inner_.empty(); ++i) {
      Ways& inner = inner_[other * cores_per_agent_ + i];
      if (const std::size_t at = inner.find(line); at != Ways::kNowhere)
        inner.set_value(at, writing_);
    }
  });
  return others || protocol_ == Protocol::dragon_owned ? State::owned : State::modified;
}

void Coherence::drop_outer(std::uint64_t line, Entry& entry, std::uint64_t chips) {
  each_agent(entry.outer & chips, [&](std::uint32_t chip) {
    outer_[chip].erase(outer_[chip].find(line));
    if (entry.outer_dirty == chip) entry.outer_dirty = kNobody;
  });
  entry.outer &= ~chips;
}

Coherence::Got Coherence::get(std::uint32_t agent, std::uint64_t line, Entry& entry) {
  const std::uint32_t chip = chip_of_agent(agent);
  // A copy here is as good as the owner's, unless that may write without asking.
  const bool owned = entry.owner == kNobody || owner_state(line, entry) == State::owned;
  if (owned && entry.outer & bit(chip)) return get_from_outer(agent, chip, line, entry);
  if (entry.owner != kNobody) return get_from_owner(agent, line, entry);
  if (const std::uint64_t near = entry.holders & agents_of_chip_[chip]; near)
    return get_from_sharer(agent, line, entry, near);
  if (entry.holders) return get_from_sharer(agent, line, entry, entry.holders);
  if (entry.outer)
    return get_from_outer(agent, static_cast<std::uint32_t>(std::countr_zero(entry.outer)), line,
                          entry);
  return get_from_memory(agent, line, entry);
}

State Coherence::owner_state(std::uint64_t line, const Entry& entry) const {
  return caches_[entry.owner].state(caches_[entry.owner].find(line));
}

Coherence::Got Coherence::get_from_owner(std::uint32_t agent, std::uint64_t line, Entry& entry) {
  const std::uint32_t owner = entry.owner, chip = chip_of_agent(owner);
  const State state = owner_state(line, entry);
  const std::uint64_t value = value_of(owner, line);
  if (state == State::modified && protocol_ != Protocol::mesi) {
    restate(owner, line, State::owned);
  } else if (state != State::owned) {
    if (state == State::modified) write_back(line, value);
    restate(owner, line, State::shared);
    entry.owner = kNobody;
  }
  const Source source = chip == chip_of_agent(agent) ? Source::peer : Source::remote_cache;
  return {fill(source, chip), State::shared, value};
}

Coherence::Got Coherence::get_from_outer(std::uint32_t agent, std::uint32_t chip,
                                         std::uint64_t line, Entry& entry) {
  Ways& outer = outer_[chip];
  const std::size_t at = outer.find(line);
  const std::uint64_t value = outer.value(at);
  const bool here = chip == chip_of_agent(agent);
  const bool others = entry.holders != 0 || (entry.outer & ~bit(chip)) != 0;
  bool dirty = entry.outer_dirty == chip;
  Got got{fill(here ? Source::outer : Source::remote_outer, chip), State::shared, value};
  if (dirty && protocol_ == Protocol::mesi && (others || !here)) {
    write_back(line, value);
    entry.outer_dirty = kNobody;
    dirty = false;
  }
  if (!here) return got;
  if (dirty)
    got.state = others ? State::owned : State::modified;
  else if (!others)
    got.state = State::exclusive;
  if (dirty || outer_exclusive_)
    drop_outer(line, entry, bit(chip));
  else
    outer.touch(at);
  return got;
}

Coherence::Got Coherence::get_from_sharer(std::uint32_t agent, std::uint64_t line, Entry&,
                                          std::uint64_t among) {
  const auto sharer = static_cast<std::uint32_t>(std::countr_zero(among));
  const std::uint32_t chip = chip_of_agent(sharer);
  const Source source = chip == chip_of_agent(agent) ? Source::peer : Source::remote_cache;
  return {fill(source, chip), State::shared, value_of(sharer, line)};
}

Coherence::Got Coherence::get_from_memory(std::uint32_t agent, std::uint64_t line, Entry& entry) {
  const std::uint64_t* const held = values_ ? memory_.find(line) : nullptr;
  const Source source = entry.home == chip_of_agent(agent) ? Source::memory : Source::remote_memory;
  return {fill(source, entry.home), State::exclusive, held ? *held : 0};
}

void Coherence::bring_in(std::uint32_t agent, std::uint64_t line, const Got& got) {
  count(State::invalid, got.state);
  if (const Ways::Left left = caches_[agent].insert(line, got.state, got.value); left.word)
    leave(agent, left);
}

// A line leaves a coherent cache for another.
void Coherence::leave(std::uint32_t agent, const Ways::Left& left) {
  const std::uint64_t line = Ways::line_of(left.word);
  const State state = Ways::state_of(left.word);
  const std::uint32_t chip = chip_of_agent(agent);
  Entry& entry = *directory_.find(line);
  count(state, State::invalid);
  entry.holders &= ~bit(agent);
  if (entry.owner == agent) entry.owner = kNobody;
  for (std::uint32_t i = 0; i < cores_per_agent_ && !inner_.empty(); ++i) {
    Ways& inner = inner_[agent * cores_per_agent_ + i];
    if (const std::size_t at = inner.find(line); at != Ways::kNowhere) inner.erase(at);
  }
  const bool dirty = state == State::modified || state == State::owned;
  if (outer_.empty()) {
    if (dirty) write_back(line, left.value);
    return;
  }
  const bool last_here = !(entry.holders & agents_of_chip_[chip]) && !(entry.outer & bit(chip));
  if (dirty || (outer_exclusive_ && last_here)) fill_outer(chip, line, left.value, dirty);
}

void Coherence::fill_outer(std::uint32_t chip, std::uint64_t line, std::uint64_t value,
                           bool dirty) {
  Ways& outer = outer_[chip];
  Entry& entry = *directory_.find(line);
  entry.outer |= bit(chip);
  if (dirty) entry.outer_dirty = static_cast<std::uint8_t>(chip);
  if (const std::size_t at = outer.find(line); at != Ways::kNowhere) {
    outer.set_value(outer.touch(at), value);
    return;
  }
  const bool at_the_end = at_the_end_ && ++inserted_ % kFrontEvery != 0;
  if (const Ways::Left left = outer.insert(line, State::shared, value, at_the_end); left.word)
    leave_outer(chip, left);
}

void Coherence::leave_outer(std::uint32_t chip, const Ways::Left& left) {
  const std::uint64_t line = Ways::line_of(left.word);
  Entry& entry = *directory_.find(line);
  entry.outer &= ~bit(chip);
  if (entry.outer_dirty == chip) {
    entry.outer_dirty = kNobody;
    write_back(line, left.value);
  }
  if (!outer_inclusive_) return;
  const std::uint64_t inside = entry.holders & agents_of_chip_[chip];
  each_agent(inside, [&](std::uint32_t agent) {
    const State state = caches_[agent].state(caches_[agent].find(line));
    if (state == State::modified || state == State::owned) write_back(line, value_of(agent, line));
    if (entry.owner == agent) entry.owner = kNobody;
    remove(agent, line);
  });
  entry.holders &= ~inside;
}

// The core's own first cache, and those of the cores beside it, see what the coherent cache has.
void Coherence::show_inside(std::uint32_t core, std::uint64_t line, State state, bool writes) {
  if (inner_.empty()) return;
  const std::uint32_t agent = agent_of(core);
  for (std::uint32_t i = 0; i < cores_per_agent_; ++i) {
    const std::uint32_t beside = agent * cores_per_agent_ + i;
    if (beside == core) continue;
    const std::size_t at = inner_[beside].find(line);
    if (at == Ways::kNowhere) continue;
    if (writes) {
      inner_[beside].erase(at);
    } else {
      inner_[beside].set_state(at, State::shared);
      state = State::shared;
    }
  }
  Ways& own = inner_[core];
  if (const std::size_t at = own.find(line); at != Ways::kNowhere)
    own.set_state(own.touch(at), state);
  else if (!writes || inner_allocates_)
    own.insert(line, state, values_ ? value_of(agent, line) : 0);
}

void Coherence::restate(std::uint32_t agent, std::uint64_t line, State to) {
  Ways& cache = caches_[agent];
  const std::size_t at = cache.find(line);
  count(cache.state(at), to);
  cache.set_state(at, to);
  for (std::uint32_t i = 0; i < cores_per_agent_ && !inner_.empty(); ++i) {
    Ways& inner = inner_[agent * cores_per_agent_ + i];
    if (const std::size_t inside = inner.find(line); inside != Ways::kNowhere)
      inner.set_state(inside, to);
  }
}

void Coherence::remove(std::uint32_t agent, std::uint64_t line) {
  Ways& cache = caches_[agent];
  const std::size_t at = cache.find(line);
  count(cache.state(at), State::invalid);
  cache.erase(at);
  for (std::uint32_t i = 0; i < cores_per_agent_ && !inner_.empty(); ++i) {
    Ways& inner = inner_[agent * cores_per_agent_ + i];
    if (const std::size_t inside = inner.find(line); inside != Ways::kNowhere) inner.erase(inside);
  }
}

void Coherence::write_back(std::uint64_t line, std::uint64_t value) {
  ++events_.write_backs;
  if (values_) *memory_.try_emplace(line).first = value;
}

std::uint64_t Coherence::value_of(std::uint32_t agent, std::uint64_t line) const {
  return values_ ? caches_[agent].value(caches_[agent].find(line)) : 0;
}

std::uint64_t Coherence::switch_protocol(Protocol to) {
  protocol_ = to;
  if (to != Protocol::mesi) return 0;
  std::vector<std::uint64_t> lines;
  directory_.for_each([&](std::uint64_t line, const Entry& entry) {
    if (entry.owner != kNobody || entry.outer_dirty != kNobody) lines.push_back(line);
  });
  std::uint64_t written = 0;
  for (const std::uint64_t line : lines) {
    Entry& entry = *directory_.find(line);
    const bool has_owner = entry.owner != kNobody;
    if (has_owner && state_of(entry.owner * cores_per_agent_, line) == State::owned) {
      write_back(line, value_of(entry.owner, line));
      restate(entry.owner, line, State::shared);
      entry.owner = kNobody;
      ++written;
    } else if (!has_owner && (entry.holders || std::popcount(entry.outer) > 1)) {
      const Ways& outer = outer_[entry.outer_dirty];
      write_back(line, outer.value(outer.find(line)));
      entry.outer_dirty = kNobody;
      ++written;
    }
  }
  return written;
}

State Coherence::state_of(std::uint32_t core, std::uint64_t line) const {
  const Ways& cache = caches_[agent_of(core)];
  const std::size_t at = cache.find(line);
  return at == Ways::kNowhere ? State::invalid : cache.state(at);
}

std::uint64_t Coherence::load(std::uint32_t core, std::uint64_t line) {
  access(core, line, false);
  const Ways& first = inner_.empty() ? caches_[agent_of(core)] : inner_[core];
  return first.value(first.find(line));
}

void Coherence::store(std::uint32_t core, std::uint64_t line, std::uint64_t value) {
  writing_ = value;
  access(core, line, true);
  Ways& cache = caches_[agent_of(core)];
  cache.set_value(cache.find(line), value);
  if (inner_.empty()) return;
  Ways& inner = inner_[core];
  if (const std::size_t at = inner.find(line); at != Ways::kNowhere) inner.set_value(at, value);
}

}  // namespace stallscope::machine
