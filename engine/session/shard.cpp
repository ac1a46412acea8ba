// SPDX-License-Identifier: Apache-2.0
#include "session/shard.h"

#include <algorithm>
#include <bit>

#include "stallscope_records.h"
#include "stream/reader.h"
#include "stream/record.h"

namespace stallscope::session {
namespace {

using machine::Level;

std::uint32_t bits_of(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(std::countr_zero(bytes));
}

std::uint32_t block_bits_of(const machine::MachineConfig& machine) {
  std::uint32_t bits = 0;
  for (const machine::CacheConfig& cache : machine.caches)
    bits = std::max(bits, bits_of(cache.line));
  return bits;
}

std::uint64_t sets_of(const machine::CacheConfig& cache) {
  return cache.size / cache.line / cache.ways;
}

std::uint64_t code_line_of(const machine::MachineConfig& machine) {
  for (const machine::CacheConfig& cache : machine.caches)
    if (machine::on_fetch_path(cache.holds)) return cache.line;
  return 0;
}

Error refused(const std::string& why, const std::string& now = "a replay without shards") {
  return {"this machine cannot be replayed in shards", why, now};
}

}  // namespace

Status check_shards(const machine::MachineConfig& machine, std::uint32_t shards) {
  constexpr std::uint32_t kMost = 1024;
  if (shards == 0 || shards > kMost) return Error{"there are from 1 to 1,024 shards", "", ""};
  if (Status fits = machine::check(machine); !fits) return fits;
  if (machine.mapping.random) return refused("pages are mapped at random, so sets depend on it");
  for (const machine::PrefetcherConfig& prefetcher : machine.prefetchers)
    if (prefetcher.kind != "none") return refused("its prefetcher brings lines of other sets");
  const std::uint32_t block = block_bits_of(machine);
  for (const machine::CacheConfig& cache : machine.caches) {
    if (cache.policy == "random")
      return refused(cache.name + " replaces at random, in the order of all misses");
    if (!cache.write_allocate || !cache.write_back)
      return refused(cache.name + " passes stores on, which this does not follow");
    if (cache.inclusion != machine::Inclusion::neither)
      return refused(cache.name + " depends on what the caches inside it hold");
    const std::uint64_t apart = std::uint64_t{shards} << (block - bits_of(cache.line));
    if (sets_of(cache) % apart != 0)
      return refused(cache.name + " has " + std::to_string(sets_of(cache)) +
                         " sets, which cannot be parted so that all levels part alike",
                     "another number of shards");
  }
  return Done{};
}

Result<std::unique_ptr<Shard>> Shard::make(const machine::MachineConfig& machine,
                                           const stream::CodeTable& code, ShardOptions options) {
  if (Status fits = check_shards(machine, options.shards); !fits) return fits.error();
  if (options.shard >= options.shards) return Error{"there is no such shard", "", ""};
  if (machine.caches.size() + machine.tlbs.size() > probes::kMaxLevels)
    return Error{"the machine has more caches and TLBs than can be told apart", "", ""};
  return std::unique_ptr<Shard>(new Shard(machine, code, std::move(options)));
}

Shard::Shard(const machine::MachineConfig& machine, const stream::CodeTable& code,
             ShardOptions options)
    : config_(machine),
      code_(code),
      options_(std::move(options)),
      block_bits_(block_bits_of(machine)),
      levels_(machine.caches.size() + machine.tlbs.size()),
      code_lines_(code, code_line_of(machine)),
      misses_(buckets_, static_cast<unsigned>(machine.caches.size()),
              static_cast<unsigned>(machine.tlbs.size())) {
  const auto add = [](auto& levels, std::uint64_t sets, const auto& part, std::uint64_t line,
                      std::string_view policy, Path& data, Path& fetch) {
    levels.push_back(std::make_unique<Level>(static_cast<std::uint32_t>(levels.size()),
                                             machine::Geometry{sets, part.ways, line},
                                             *machine::find_policy(policy), 1, false));
    levels.back()->latency = part.latency;
    if (machine::on_data_path(part.holds)) data.push_back(levels.back().get());
    if (machine::on_fetch_path(part.holds)) fetch.push_back(levels.back().get());
  };
  for (const machine::CacheConfig& cache : config_.caches)
    add(caches_, sets_of(cache), cache, cache.line, cache.policy, data_, fetch_);
  for (const machine::TlbConfig& tlb : config_.tlbs)
    add(tlbs_, tlb.entries / tlb.ways, tlb, tlb.page, "lru", data_tlbs_, fetch_tlbs_);
  recent_.assign(tlbs_.size(), ~std::uint64_t{0});
}

// Whether the level has every line of the range that is in this shard. Those that it lacks come in.
bool Shard::look_up(Level& level, std::uint64_t first, std::uint64_t last) {
  bool hit = true;
  const bool apart = crosses(first, last);
  for (std::uint64_t line = first >> level.bits; line <= last >> level.bits; ++line) {
    if (apart && !mine(line << level.bits)) continue;
    const machine::Touched touched = level.touch(level.set_of(line), machine::key_of(line), 0);
    if (touched.hit) continue;
    hit = false;
    if (touched.tag == machine::kEmpty) continue;
    ++levels_[level.index].evictions;
    if (options_.evictions)
      victims_.push_back({level.index, level.address_of(machine::line_of(touched.tag))});
  }
  return hit;
}

std::uint32_t Shard::walk(const Path& path, std::uint64_t first, std::uint64_t last,
                          std::uint32_t others) {
  std::uint32_t missed = 0;
  for (std::uint32_t depth = 0; depth < path.size(); ++depth) {
    if (!look_up(*path[depth], first, last)) missed |= 1u << depth;
    if (!((missed | others) >> depth & 1)) break;
  }
  return missed;
}

// The levels that were missed, a bit each.
std::uint32_t Shard::count(const Path& path, std::uint32_t missed) {
  std::uint32_t levels = 0;
  for (std::uint32_t depth = 0; depth < path.size(); ++depth) {
    if (depth > 0) levels_[path[depth]->index].accesses += counting_;
    if (!(missed >> depth & 1)) break;
    levels_[path[depth]->index].misses += counting_;
    levels |= 1u << path[depth]->index;
  }
  return levels;
}

std::uint32_t Shard::latency_of(const Path& path, std::uint32_t missed) const {
  const auto depth = static_cast<std::size_t>(std::countr_one(missed));
  return depth < path.size() ? path[depth]->latency : config_.memory_latency;
}

void Shard::attribute(std::uint64_t address, std::uint32_t operation, std::uint32_t levels,
                      std::uint32_t latency, std::uint32_t translation) {
  if (counting_) misses_.add(buckets_.find(address), operation, levels, latency, translation);
}

void Shard::throw_out(std::uint64_t address, std::uint32_t operation) {
  if (victims_.empty()) return;
  const probes::BucketId culprit = buckets_.find(address);
  for (const Victim& victim : victims_)
    misses_.evict(victim.level,
                  buckets_.find_line(victim.address, config_.caches[victim.level].line), culprit,
                  operation);
  victims_.clear();
}

void Shard::data(std::uint64_t first, std::uint64_t last, std::uint32_t operation) {
  if (options_.shard == 0) translate(data_tlbs_, first, last, operation, true);
  if (!crosses(first, last)) {
    if (!mine(first)) return;
    const std::uint32_t missed = walk(data_, first, last, 0);
    if (missed) {
      attribute(first, operation, count(data_, missed), latency_of(data_, missed), 0);
      throw_out(first, operation);
    }
    return;
  }
  const std::size_t number = crossing_++;
  const std::uint32_t others = number < options_.others.size() ? options_.others[number] : 0;
  const std::uint32_t missed = walk(data_, first, last, others);
  missed_.push_back(static_cast<std::uint8_t>(missed));
  throw_out(first, operation);
  const std::uint32_t together = missed | others;
  if (mine(first) && together)
    attribute(first, operation, count(data_, together), latency_of(data_, together), 0);
  else if (missed)
    buckets_.find(first);  // lets a stack grow: a line that came in will be thrown out as its
}

void Shard::translate(const Path& path, std::uint64_t first, std::uint64_t last,
                      std::uint32_t operation, bool is_data) {
  if (path.empty()) return;
  // What a TLB looked up last is there and the newest of its set: doing it again changes nothing.
  const Level& nearest = *path.front();
  const std::uint64_t recent = recent_[nearest.index];
  if (first >> nearest.bits == recent && last >> nearest.bits == recent) return;
  const auto caches = static_cast<std::uint32_t>(caches_.size());
  std::uint32_t missed = 0, latency = config_.page_walk_latency;
  for (std::uint32_t depth = 0; depth < path.size(); ++depth) {
    Level& tlb = *path[depth];
    ShardLevel& counts = levels_[caches + tlb.index];
    if (depth > 0) counts.accesses += counting_;
    bool hit = true;
    for (std::uint64_t page = first >> tlb.bits; page <= last >> tlb.bits; ++page) {
      const machine::Touched touched = tlb.touch(tlb.set_of(page), machine::key_of(page), 0);
      hit &= touched.hit;
      counts.evictions += !touched.hit && touched.tag != machine::kEmpty;
    }
    recent_[tlb.index] = last >> tlb.bits;
    if (hit) {
      latency = depth == 0 ? 0 : tlb.latency;
      break;
    }
    counts.misses += counting_;
    missed |= 1u << (caches + tlb.index);
  }
  if (is_data && missed) attribute(first, operation, missed, 0, latency);
}

void Shard::on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
  instructions_ += info.instructions;
  accesses_ += info.operations;
  for (const std::uint64_t line : code_lines_.of(exit)) {
    if (line == last_line_) continue;  // as a replay counts them
    last_line_ = line;
    ++fetched_;
    if (options_.shard == 0) translate(fetch_tlbs_, line, line, 0, false);
    if (!mine(line)) continue;
    if (const std::uint32_t missed = walk(fetch_, line, line, 0)) count(fetch_, missed);
    victims_.clear();
  }
  for (std::uint32_t i = 0; i < info.operations; ++i) {
    const std::uint32_t operation = info.first_operation + i;
    counting_ = addresses[i] != machine::kNoAddress && !code_.operations[operation].is_prefetch();
    absent_ += !counting_;
    if (addresses[i] != machine::kNoAddress)
      data(addresses[i], machine::last_byte(addresses[i], code_.operations[operation].size),
           operation);
    counting_ = true;
  }
}

void Shard::memory(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  if (tag == SS_ALLOC) {
    const auto& record = *reinterpret_cast<const ss_alloc*>(words);
    if (!record.address) return buckets_.revive(record.old_address);
    buckets_.allocate(record.address, record.size, static_cast<std::uint32_t>(record.site));
  } else if (tag == SS_FREE) {
    buckets_.release(reinterpret_cast<const ss_free*>(words)->address);
  } else if (tag == SS_UNMAP) {
    const auto& record = *reinterpret_cast<const ss_unmap*>(words);
    buckets_.unmap(record.address, record.length);
  } else if (tag == SS_NAME_BLOCK) {
    if (auto record = stream::view<ss_name_block>(words, count); record)
      buckets_.give_name(record->tail, record->fields->address, record->fields->size);
  }
}

void Shard::mark(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  const std::uint32_t thread = SS_HEAD_THREAD(words[0]);
  if (tag == SS_THREAD_SWITCH) {
    regions_.run(thread);
  } else if (tag == SS_THREAD_EXIT) {
    regions_.exit(thread);
  } else if (tag == SS_MARK) {
    const auto record = stream::view<ss_mark>(words, count);
    if (!record) return;
    if (record->fields->kind == SS_MARK_KIND_REGION_BEGIN) regions_.begin(thread, record->tail);
    if (record->fields->kind == SS_MARK_KIND_REGION_END) regions_.end(thread, record->tail);
  } else {
    return;
  }
  misses_.enter(regions_.current());
}

Status Shard::on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
  if (tag == SS_SIFTED) return Error{"the stream has sifted accesses where all are wanted", "", ""};
  memory(tag, words, count);
  mark(tag, words, count);
  return Done{};
}

ShardResult Shard::result() {
  ShardResult result{levels_, missed_, instructions_, accesses_, absent_, fetched_, {}, {}, {}};
  buckets_.fill(result.bucket);
  misses_.fill(result.miss);
  misses_.fill(result.eviction);
  return result;
}

Result<ShardResult> replay_shard(const std::string& path, const machine::MachineConfig& machine,
                                 const ShardOptions& options, const std::vector<Placed>& placed) {
  auto reader = stream::TraceReader::open(path);
  if (!reader) return reader.error();
  auto shard = Shard::make(machine, reader->code(), options);
  if (!shard) return shard.error();
  place_all(placed, (*shard)->buckets());
  if (Status read = reader->for_each(**shard); !read) return read.error();
  return (*shard)->result();
}

}  // namespace stallscope::session
