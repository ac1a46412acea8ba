// SPDX-License-Identifier: Apache-2.0
#include "session/designs.h"

#include <algorithm>
#include <bit>
#include <map>

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
  stages_.push_back(std::make_unique<Stage>(Stage{translates, {data, fetch}, {}, {}, {}, nullptr}));
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
    for (const auto& group : stage->groups)
      std::ranges::sort(group->variants, {}, [](const auto& variant) { return variant->ways; });
    bundle(*stage);
  }
  for (const auto& stage : stages_) {
    for (const auto& group : stage->groups)
      if (!group->variants[0]->bundle) give_stacks(*group);
    link(*stage);
  }
  open_gates();
}

void Designs::bundle(Stage& stage) {
  if (stage.groups[0]->variants[0]->bundle) return;  // behind another
  std::map<std::uint32_t, std::vector<Group*>> by_line;
  for (const auto& group : stage.groups)
    if (group->variants.size() <= kFew &&
        group->variants.back()->ways <= stack::Residents::kMostWays)
      by_line[group->bits].push_back(group.get());
  for (const auto& [bits, groups] : by_line) {
    if (groups.size() < kWorth) continue;
    for (Group* group : groups)
      for (const auto& variant : group->variants) {
        if (stage.bundles.empty() || stage.bundles.back()->bits != bits ||
            stage.bundles.back()->variants.size() == stack::Residents::kMost)
          stage.bundles.push_back(std::make_unique<Bundle>());
        Bundle& made = *stage.bundles.back();
        made.bits = bits;
        variant->bundle = &made;
        variant->number = static_cast<unsigned>(made.variants.size());
        made.variants.push_back(variant.get());
      }
  }
  for (const auto& made : stage.bundles) {
    give_residents(*made);
    bundle_behind(*made);
  }
}

void Designs::give_residents(Bundle& bundle) {
  std::vector<stack::Residents::Shape> shapes;
  for (const Variant* variant : bundle.variants)
    shapes.push_back({variant->group->sets, variant->ways});
  bundle.residents = std::make_unique<stack::Residents>(shapes);
  for (auto& missed : bundle.missed) missed.assign(shapes.size(), 0);
}

bool Designs::only_behind(const Stage& stage, const Variant& variant) {
  for (const Source& source : stage.sources)
    if (source.given && source.misses_of != &variant) return false;
  const Group& group = *stage.groups[0];
  return stage.groups.size() == 1 && group.variants.size() == 1 &&
         group.variants[0]->ways <= stack::Residents::kMostWays;
}

void Designs::bundle_behind(Bundle& bundle) {
  std::vector<Variant*> found;
  for (const Variant* variant : bundle.variants) {
    const auto& ways = variant->next[variant->next[kData].empty() ? kFetch : kData];
    if (ways.size() != 1 || !only_behind(*ways[0], *variant)) return;
    for (const auto& stages : variant->next)
      if (!stages.empty() && stages != ways) return;
    found.push_back(ways[0]->groups[0]->variants[0].get());
    if (found.back()->group->bits != found[0]->group->bits) return;
  }
  bundle.behind = std::make_unique<Bundle>();
  bundle.behind->bits = found[0]->group->bits;
  bundle.behind->variants = found;
  for (unsigned number = 0; number < found.size(); ++number) {
    found[number]->bundle = bundle.behind.get();
    found[number]->number = number;
    for (unsigned port = 0; port < kPorts; ++port)
      if (!bundle.variants[number]->next[port].empty())
        bundle.go_there[port] |= std::uint64_t{1} << number;
  }
  give_residents(*bundle.behind);
  bundle_behind(*bundle.behind);
}

void Designs::give_stacks(Group& group) {
  const std::uint32_t most = group.variants.back()->ways;
  group.stacks = std::make_unique<stack::SetStacks>(group.sets, most);
  group.evicted.assign(most + 1, 0);
  for (auto& missed : group.missed) missed.assign(most + 1, 0);
  for (unsigned port = 0; port < kPorts; ++port) {
    for (const auto& variant : group.variants)
      if (!variant->next[port].empty()) group.heard[port].push_back(variant.get());
  }
}

void Designs::link(Stage& stage) {
  std::vector<Group*> groups;
  for (const auto& group : stage.groups)
    if (group->stacks) groups.push_back(group.get());
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
  const bool alone = stage.groups.size() == 1 && groups.size() == 1;
  if (alone && groups[0]->heard[kData].empty() && groups[0]->heard[kFetch].empty())
    stage.leaf = groups[0];
}

void Designs::open_gates() {
  for (unsigned port = 0; port < kPorts; ++port)
    for (const Stage* stage : roots_[port]) {
      for (const std::vector<Group*>& chain : stage->chains) {
        const stack::SetStacks& stacks = *chain.front()->stacks;
        gated_[port] &= stacks.has_mask();
        gates_[port].push_back({stacks.tops(), stacks.sets() - 1, chain.front()->bits});
      }
      for (const auto& bundle : stage->bundles)
        gates_[port].push_back(
            {bundle->residents->tops(), bundle->residents->mask(), bundle->bits});
    }
}

bool Designs::settled(Port port, std::uint64_t first, std::uint64_t last) const {
  if (!gated_[port]) return false;
  for (const Gate& gate : gates_[port])
    if (!gate.closed(first >> gate.bits) || (first ^ last) >> gate.bits) return false;
  return true;
}

// The deepest place of the lines, so how many ways it takes to hit all of them.
inline std::uint32_t Designs::touch(Group& group, std::uint64_t first, std::uint64_t last) {
  std::uint32_t deepest = 0;
  for (std::uint64_t line = first >> group.bits; line <= last >> group.bits; ++line) {
    const stack::SetStacks::Place place = group.stacks->touch(line);
    if (place.depth == 0) continue;
    ++group.evicted[place.evicting];
    deepest = std::max(deepest, place.depth);
  }
  return deepest;
}

inline void Designs::look_up(Stage& stage, Port port, std::uint64_t first, std::uint64_t last) {
  if (!stage.leaf) return look_up_all(stage, port, first, last);
  if (const std::uint32_t depth = touch(*stage.leaf, first, last))
    ++stage.leaf->missed[port][depth];
}

void Designs::look_up_all(Stage& stage, Port port, std::uint64_t first, std::uint64_t last) {
  for (const std::vector<Group*>& chain : stage.chains)
    for (Group* group : chain) {
      const std::uint32_t depth = touch(*group, first, last);
      if (depth == 0) break;
      ++group->missed[port][depth];
      for (Variant* variant : group->heard[way_of(port)]) {
        if (variant->ways > depth) break;
        for (Stage* next : variant->next[way_of(port)]) look_up(*next, port, first, last);
      }
    }
  for (const auto& bundle : stage.bundles) look_up(*bundle, port, first, last);
}

void Designs::look_up(Bundle& bundle, Port port, std::uint64_t first, std::uint64_t last) {
  std::uint64_t missed = 0;
  for (std::uint64_t line = first >> bundle.bits; line <= last >> bundle.bits; ++line)
    missed |= bundle.residents->touch(line);
  tell_missed(bundle, port, first, last, missed);
}

void Designs::look_up(Bundle& bundle, Port port, std::uint64_t first, std::uint64_t last,
                      std::uint64_t by) {
  std::uint64_t missed = 0;
  for (std::uint64_t line = first >> bundle.bits; line <= last >> bundle.bits; ++line)
    missed |= bundle.residents->use(line, by);
  tell_missed(bundle, port, first, last, missed);
}

void Designs::tell_missed(Bundle& bundle, Port port, std::uint64_t first, std::uint64_t last,
                          std::uint64_t missed) {
  std::uint64_t* const counts = bundle.missed[port].data();
  for (std::uint64_t left = missed; left; left &= left - 1) ++counts[std::countr_zero(left)];
  if (bundle.behind) {
    if (const std::uint64_t by = missed & bundle.go_there[way_of(port)])
      look_up(*bundle.behind, port, first, last, by);
    return;
  }
  for (; missed; missed &= missed - 1)
    for (Stage* next : bundle.variants[std::countr_zero(missed)]->next[way_of(port)])
      look_up(*next, port, first, last);
}

void Designs::access(Port port, std::uint64_t first, std::uint64_t last) {
  for (Stage* stage : roots_[way_of(port)]) look_up(*stage, port, first, last);
}

void Designs::learn_steps() {
  for (std::size_t i = less_one_.size(); i < code_.operations.size(); ++i)
    less_one_.push_back(code_.operations[i].is_prefetch() ? kPrefetched
                                                          : code_.operations[i].size - 1);
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
    if (less_one[i] == kPrefetched) [[unlikely]] {
      ++absent_;
      if (!settled(kData, first, first)) access(kPrefetch, first, first);
      continue;
    }
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

std::uint64_t Designs::missed_by(const Variant& variant, Port port) {
  if (variant.bundle) return variant.bundle->missed[port][variant.number];
  const std::vector<std::uint64_t>& missed = variant.group->missed[port];
  std::uint64_t sum = 0;
  for (std::size_t depth = variant.ways; depth < missed.size(); ++depth) sum += missed[depth];
  return sum;
}

std::uint64_t Designs::evicted_by(const Variant& variant) {
  if (variant.bundle) return variant.bundle->residents->evictions(variant.number);
  const std::vector<std::uint64_t>& evicted = variant.group->evicted;
  std::uint64_t sum = 0;
  for (std::size_t ways = variant.ways; ways < evicted.size(); ++ways) sum += evicted[ways];
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
  counts.evictions = evicted_by(variant);
  return counts;
}

Result<DesignsResult> Designs::result() const {
  for (const auto& stage : stages_)
    for (const auto& group : stage->groups)
      if (group->stacks && group->stacks->overflowed())
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
