// SPDX-License-Identifier: Apache-2.0
// What must hold between any two accesses, whatever the protocol.
#include <bit>
#include <string>

#include "machine/coherence.h"

namespace stallscope::machine {
namespace {

Error broken(std::uint64_t line, const char* what) {
  return {"line " + std::to_string(line) + ": " + what, "the caches of the machine disagree", ""};
}

struct Seen {
  std::uint64_t holders = 0, outer = 0;
};

}  // namespace

Status Coherence::check_line(std::uint64_t line, const Entry& entry) const {
  std::uint32_t owners = 0, writers = 0;
  each_agent(entry.holders, [&](std::uint32_t agent) {
    const State state = state_of(agent * cores_per_agent_, line);
    owners += state != State::shared;
    writers += state == State::modified || state == State::exclusive;
    if (state == State::owned && protocol_ == Protocol::mesi) owners += 2;
  });
  if (owners > 1) return broken(line, "two caches own it, or one does under MESI");
  if (owners != (entry.owner != kNobody))
    return broken(line, "its owner is not where it should be");
  if (owners && !(entry.holders & bit(entry.owner))) return broken(line, "its owner lost it");
  if (writers && std::popcount(entry.holders) > 1)
    return broken(line, "one cache may write to it and another has it");
  if (owners && entry.outer_dirty != kNobody) return broken(line, "two caches have the last word");
  if (writers) {
    const State state = state_of(entry.owner * cores_per_agent_, line);
    const std::uint64_t allowed =
        state == State::exclusive ? bit(chip_of_agent(entry.owner)) : std::uint64_t{0};
    if (entry.outer & ~allowed) return broken(line, "an outermost cache has an old copy");
  }
  if (entry.outer_dirty != kNobody && !(entry.outer & bit(entry.outer_dirty)))
    return broken(line, "the outermost cache with the last word lost it");
  return Done{};
}

Status Coherence::check_inner() const {
  Status status = Done{};
  for (std::uint32_t core = 0; core < inner_.size(); ++core)
    inner_[core].for_each([&](std::uint64_t line, State state) {
      const State behind = state_of(core, line);
      if (behind == State::invalid) status = broken(line, "a first cache has what is gone behind");
      if (state == State::shared || state == behind) {
        if (state != State::modified) return;
      } else {
        status = broken(line, "a first cache has more rights than the one behind");
      }
      const std::uint32_t first = agent_of(core) * cores_per_agent_;
      for (std::uint32_t beside = first; beside < first + cores_per_agent_; ++beside)
        if (beside != core && inner_[beside].find(line) != Ways::kNowhere)
          status = broken(line, "two first caches have it, and one may write");
    });
  return status;
}

Status Coherence::check() const {
  FlatMap<Seen> seen;
  for (std::uint32_t agent = 0; agent < caches_.size(); ++agent)
    caches_[agent].for_each(
        [&](std::uint64_t line, State) { seen.try_emplace(line).first->holders |= bit(agent); });
  for (std::uint32_t chip = 0; chip < outer_.size(); ++chip)
    outer_[chip].for_each(
        [&](std::uint64_t line, State) { seen.try_emplace(line).first->outer |= bit(chip); });
  Status status = Done{};
  directory_.for_each([&](std::uint64_t line, const Entry& entry) {
    const Seen* const found = seen.find(line);
    const Seen here = found ? *found : Seen{};
    if (here.holders != entry.holders || here.outer != entry.outer)
      status = broken(line, "the directory does not know who has it");
    else if (Status legal = check_line(line, entry); !legal)
      status = legal;
  });
  seen.for_each([&](std::uint64_t line, const Seen&) {
    if (!directory_.contains(line)) status = broken(line, "the directory does not know it");
  });
  return status ? check_inner() : status;
}

}  // namespace stallscope::machine
