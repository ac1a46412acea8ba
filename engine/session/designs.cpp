// SPDX-License-Identifier: Apache-2.0
#include "session/designs.h"

#include <algorithm>
#include <bit>

#include "stallscope_records.h"
#include "stream/reader.h"

namespace stallscope::session {
namespace {

using machine::Holds;

Status serves(const machine::MachineConfig& machine) {
  const auto no = [](const std::string& why) {
    return Error{"the machine cannot share a pass with others", why, "a replay of its own"};
  };
  if (machine.mapping.random) return no("it maps pages at random");
  for (const machine::PrefetcherConfig& prefetcher : machine.prefetchers)
    if (prefetcher.kind != "none") return no("it prefetches");
  for (const machine::CacheConfig& cache : machine.caches) {
    if (cache.policy != "lru") return no(cache.name + " is not LRU");
    if (!cache.write_allocate || !cache.write_back ||
        cache.inclusion != machine::Inclusion::neither)
      return no(cache.name + " does not allocate on every miss, write back and stand alone");
  }
  return machine::check(machine);
}

std::uint64_t code_line_of(const machine::MachineConfig& machine) {
  for (const machine::CacheConfig& cache : machine.caches)
    if (machine::on_fetch_path(cache.holds)) return cache.line;
  return 0;
}

bool reaches(Holds holds, unsigned port) {
  return port == 0 ? machine::on_data_path(holds) : machine::on_fetch_path(holds);
}

std::uint32_t bits_of(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(std::countr_zero(bytes));
}

}  // namespace

Result<std::unique_ptr<Designs>> Designs::make(const std::vector<machine::MachineConfig>& machines,
                                               const stream::CodeTable& code) {
  if (machines.empty()) return Error{"there is no machine", "", ""};
  for (const machine::MachineConfig& machine : machines) {
    if (Status served = serves(machine); !served) return served.error();
    if (code_line_of(machine) != code_line_of(machines[0]))
      return Error{"machines of one pass fetch lines of code of the same length", "", ""};
  }
  std::unique_ptr<Designs> made(new Designs(code, code_line_of(machines[0])));
  for (const machine::MachineConfig& machine : machines) made->add(machine);
  made->ready();
  return made;
}

void Designs::add(const machine::MachineConfig& machine) {
  std::vector<Member> members;
  Source caches[kPorts] = {{true, nullptr}, {true, nullptr}};
  for (const machine::CacheConfig& cache : machine.caches)
    members.push_back({add_level(false, cache.holds, bits_of(cache.line),
                                 cache.size / cache.line / cache.ways, cache.ways, caches),
                       false, cache.holds});
  Source tlbs[kPorts] = {{true, nullptr}, {true, nullptr}};
  for (const machine::TlbConfig& tlb : machine.tlbs)
    members.push_back(
        {add_level(true, tlb.holds, bits_of(tlb.page), tlb.entries / tlb.ways, tlb.ways, tlbs),
         true, tlb.holds});
  machines_.push_back(std::move(members));
}

// `sources` become those of what stands further out.
Designs::Variant* Designs::add_level(bool translates, Holds holds, std::uint32_t bits,
                                     std::uint64_t sets, std::uint32_t ways,
                                     Source (&sources)[kPorts]) {
  Stage& stage = stage_of(translates, reaches(holds, kData) ? sources[kData] : Source{},
                          reaches(holds, kFetch) ? sources[kFetch] : Source{});
  auto group = std::ranges::find_if(
      stage.groups, [&](const auto& one) { return one->bits == bits && one->sets == sets; });
  if (group == stage.groups.end()) {
    stage.groups.push_back(std::make_unique<Group>());
    group = stage.groups.end() - 1;
    (*group)->bits = bits;
    (*group)->sets = sets;
  }
  auto& variants = (*group)->variants;
  auto variant = std::ranges::find_if(variants, [&](const auto& v) { return v->ways == ways; });
  if (variant == variants.end()) {
    variants.push_back(std::make_unique<Variant>());
    variant = variants.end() - 1;
    (*variant)->group = group->get();
    (*variant)->ways = ways;
  }
  for (unsigned port = 0; port < kPorts; ++port)
    if (reaches(holds, port)) sources[port].misses_of = variant->get();
  return variant->get();
}

Designs::Stage& Designs::stage_of(bool translates, const Source& data, const Source& fetch) {
  for (const auto& stage : stages_)
    if (stage->translates == translates && stage->sources[kData] == data &&
        stage->sources[kFetch] == fetch)
      return *stage;
  stages_.push_back(std::make_unique<Stage>(Stage{translates, {data, fetch}, {}, {}}));
  Stage* const stage = stages_.back().get();
  for (unsigned port = 0; port < kPorts; ++port) {
    const Source& source = stage->sources[port];
    if (!source.given) continue;
    if (source.misses_of)
      source.misses_of->next[port].push_back(stage);
    else
      roots_[port].push_back(stage);
  }
  return *stage;
}

void Designs::ready() {
  for (const auto& stage : stages_) {
    for (const auto& group : stage->groups) {
      std::ranges::sort(group->variants, {}, [](const auto& variant) { return variant->ways; });
      const std::uint32_t most = group->variants.back()->ways;
      group->stacks = std::make_unique<stack::SetStacks>(group->sets, most);
      group->evicted.assign(most + 1, 0);
      for (unsigned port = 0; port < kPorts; ++port) {
        group->missed[port].assign(most + 1, 0);
        for (const auto& variant : group->variants)
          if (!variant->next[port].empty()) group->heard[port].push_back(variant.get());
      }
    }
    link(*stage);
  }
  open_gates();
}

void Designs::link(Stage& stage) {
  std::vector<Group*> groups;
  for (const auto& group : stage.groups) groups.push_back(group.get());
  std::ranges::sort(groups, {}, [](const Group* group) { return group->sets; });
  for (Group* group : groups) {
    const auto fits = [&](const std::vector<Group*>& chain) {
      return chain.back()->bits == group->bits && group->sets % chain.back()->sets == 0;
    };
    const auto chain = std::ranges::find_if(stage.chains, fits);
    if (chain == stage.chains.end())
      stage.chains.push_back({group});
    else
      chain->push_back(group);
  }
}

void Designs::open_gates() {
  for (unsigned port = 0; port < kPorts; ++port)
    for (const Stage* stage : roots_[port])
      for (const std::vector<Group*>& chain : stage->chains) {
        const stack::SetStacks& stacks = *chain.front()->stacks;
        gated_[port] &= stacks.has_mask();
        gates_[port].push_back({stacks.tops(), stacks.sets() - 1, chain.front()->bits});
      }
}

bool Designs::settled(Port port, std::uint64_t first, std::uint64_t last) const {
  if (!gated_[port]) return false;
  for (const Gate& gate : gates_[port])
    if (!gate.closed(first >> gate.bits) || (first ^ last) >> gate.bits) return false;
  return true;
}

void Designs::access(Port port, std::uint64_t first, std::uint64_t last) {
  for (Stage* stage : roots_[port]) look_up(*stage, port, first, last);
}

// The deepest place of the lines, so how many ways it takes to hit all of them.
std::uint32_t Designs::touch(Group& group, std::uint64_t first, std::uint64_t last) {
  std::uint32_t deepest = 0;
  for (std::uint64_t line = first >> group.bits; line <= last >> group.bits; ++line) {
    const stack::SetStacks::Place place = group.stacks->touch(line);
    if (place.depth == 0) continue;
    ++group.evicted[std::min(place.depth, place.lines)];
    deepest = std::max(deepest, place.depth);
  }
  return deepest;
}

void Designs::look_up(Stage& stage, Port port, std::uint64_t first, std::uint64_t last) {
  for (const std::vector<Group*>& chain : stage.chains)
    for (Group* group : chain) {
      const std::uint32_t depth = touch(*group, first, last);
      if (depth == 0) break;
      ++group->missed[port][depth];
      for (Variant* variant : group->heard[port]) {
        if (variant->ways > depth) break;
        for (Stage* next : variant->next[port]) look_up(*next, port, first, last);
      }
    }
}

void Designs::learn_steps() {
  for (std::size_t i = less_one_.size(); i < code_.operations.size(); ++i)
    less_one_.push_back(code_.operations[i].size - 1);
}

void Designs::on_block(std::uint32_t exit, const stream::Exit& info,
                       const std::uint64_t* addresses) {
  instructions_ += info.instructions;
  accesses_ += info.operations;
  for (const std::uint64_t line : code_lines_.of(exit)) {
    if (line == last_line_) continue;  // as a replay counts them
    last_line_ = line;
    ++fetched_;
    if (!settled(kFetch, line, line)) access(kFetch, line, line);
  }
  if (less_one_.size() < code_.operations.size()) learn_steps();
  const std::uint32_t* const less_one = less_one_.data() + info.first_operation;
  for (std::uint32_t i = 0; i < info.operations; ++i) {
    const std::uint64_t first = addresses[i];
    const std::uint64_t last = machine::last_byte(first, less_one[i] + 1);
    if (settled(kData, first, last)) continue;
    if (first == machine::kNoAddress)
      ++absent_;
    else
      access(kData, first, last);
  }
}

Status Designs::on_record(unsigned tag, const std::uint64_t*, std::uint32_t) {
  if (tag == SS_SIFTED) return Error{"the stream has sifted accesses where all are wanted", "", ""};
  return Done{};
}

std::uint64_t Designs::missed_by(const Variant& variant, Port port) const {
  const std::vector<std::uint64_t>& missed = variant.group->missed[port];
  std::uint64_t sum = 0;
  for (std::size_t depth = variant.ways; depth < missed.size(); ++depth) sum += missed[depth];
  return sum;
}

LevelCounts Designs::counts_of(const Variant& variant, bool translates, Holds holds) const {
  LevelCounts counts;
  for (const auto& stage : stages_) {
    const bool here = std::ranges::any_of(
        stage->groups, [&](const auto& group) { return group.get() == variant.group; });
    if (!here) continue;
    for (unsigned port = 0; port < kPorts; ++port) {
      if (!reaches(holds, port)) continue;
      counts.misses += missed_by(variant, static_cast<Port>(port));
      const Variant* const inner = stage->sources[port].misses_of;
      if (inner)
        counts.accesses += missed_by(*inner, static_cast<Port>(port));
      else if (port == kData)
        counts.accesses += accesses_ - absent_;
      else
        counts.accesses += translates ? fetched_ : instructions_;
    }
  }
  const std::vector<std::uint64_t>& evicted = variant.group->evicted;
  for (std::size_t ways = variant.ways; ways < evicted.size(); ++ways)
    counts.evictions += evicted[ways];
  return counts;
}

Result<DesignsResult> Designs::result() const {
  for (const auto& stage : stages_)
    for (const auto& group : stage->groups)
      if (group->stacks->overflowed())
        return Error{"the trace touches more lines than can be counted", "", "smaller caches"};
  DesignsResult result{instructions_, accesses_, {}};
  for (const std::vector<Member>& machine : machines_) {
    std::vector<LevelCounts> levels;
    for (const Member& member : machine)
      levels.push_back(counts_of(*member.variant, member.translates, member.holds));
    result.machines.push_back(std::move(levels));
  }
  return result;
}

Result<DesignsResult> replay_designs(const std::string& path,
                                     const std::vector<machine::MachineConfig>& machines) {
  auto reader = stream::TraceReader::open(path);
  if (!reader) return reader.error();
  auto designs = Designs::make(machines, reader->code());
  if (!designs) return designs.error();
  if (Status read = reader->for_each(**designs); !read) return read.error();
  return (*designs)->result();
}

}  // namespace stallscope::session
