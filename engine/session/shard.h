// SPDX-License-Identifier: Apache-2.0
// One shard of a replay: the sets of all caches whose number leaves a certain rest. Sets know
// nothing of each other, so the shards of a trace add up to the whole replay, exactly: misses,
// evictions and what they are counted by.
//
// An access that crosses into the lines of another shard is the exception: it goes on to the next
// level when any of its lines misses, in whichever shard. So each shard is told what the others
// missed of each crossing access, and tells what it missed itself. When what all were told is what
// all say, the shards are right: what is told of the first crossing accesses is right after a first
// round, and every round puts right at least one more.
//
// The first shard also does all TLBs. Only for machines whose caches all replace by their own set
// alone, allocate on writes, write back, neither include nor exclude each other and prefetch
// nothing, with addresses as they are, and whose sets the number of shards divides.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "machine/level.h"
#include "machine/machine.h"
#include "probes/buckets.h"
#include "probes/misses.h"
#include "probes/regions.h"
#include "session/code_lines.h"
#include "session/replay.h"
#include "stream/code_table.h"

namespace stallscope::session {

struct ShardOptions {
  std::uint32_t shards = 1;
  std::uint32_t shard = 0;
  bool evictions = false;              // who throws out whom
  std::vector<std::uint8_t> others{};  // levels that others missed, by crossing access; none yet: 0
};

struct ShardLevel {
  std::uint64_t accesses = 0;  // without those of a first level, which the totals tell
  std::uint64_t misses = 0;
  std::uint64_t evictions = 0;
};

struct ShardResult {
  std::vector<ShardLevel> levels;    // caches, then TLBs
  std::vector<std::uint8_t> missed;  // levels that this one missed, by crossing access
  std::uint64_t instructions = 0;
  std::uint64_t accesses = 0;  // absent ones included
  std::uint64_t absent = 0;
  std::uint64_t fetched = 0;  // lines of code
  BucketTable bucket;
  MissTable miss;
  EvictionTable eviction;
};

// Why the machine cannot be replayed in so many shards, or nothing.
Status check_shards(const machine::MachineConfig& machine, std::uint32_t shards);

// A sink of the stream.
class Shard {
 public:
  // `code` is the table of the parse that feeds this, and outlives it.
  static Result<std::unique_ptr<Shard>> make(const machine::MachineConfig& machine,
                                             const stream::CodeTable& code, ShardOptions options);

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses);
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count);
  probes::Buckets& buckets() { return buckets_; }
  ShardResult result();

 private:
  using Path = std::vector<machine::Level*>;
  struct Victim {
    std::uint32_t level;
    std::uint64_t address;
  };

  Shard(const machine::MachineConfig& machine, const stream::CodeTable& code, ShardOptions options);

  bool mine(std::uint64_t address) const {
    return (address >> block_bits_) % options_.shards == options_.shard;
  }
  bool crosses(std::uint64_t first, std::uint64_t last) const {
    return (first ^ last) >> block_bits_ != 0;
  }
  void data(std::uint64_t first, std::uint64_t last, std::uint32_t operation);
  // Depths missed on the way outwards, a bit each, of lines here; `others` those of lines
  // elsewhere.
  std::uint32_t walk(const Path& path, std::uint64_t first, std::uint64_t last,
                     std::uint32_t others);
  bool look_up(machine::Level& level, std::uint64_t first, std::uint64_t last);
  // What an access counts once, whichever shards it touches.
  std::uint32_t count(const Path& path, std::uint32_t missed);
  void translate(const Path& path, std::uint64_t first, std::uint64_t last, std::uint32_t operation,
                 bool is_data);
  std::uint32_t latency_of(const Path& path, std::uint32_t missed) const;
  void attribute(std::uint64_t address, std::uint32_t operation, std::uint32_t levels,
                 std::uint32_t latency, std::uint32_t translation);
  void throw_out(std::uint64_t address, std::uint32_t operation);
  void memory(unsigned tag, const std::uint64_t* words, std::uint32_t count);
  void mark(unsigned tag, const std::uint64_t* words, std::uint32_t count);

  machine::MachineConfig config_;
  const stream::CodeTable& code_;
  ShardOptions options_;
  std::uint32_t block_bits_;  // of an address below what decides its shard
  std::vector<std::unique_ptr<machine::Level>> caches_, tlbs_;
  Path data_, fetch_, data_tlbs_, fetch_tlbs_;
  std::vector<std::uint64_t> recent_;  // by TLB: the page that it looked up last
  std::vector<ShardLevel> levels_;
  std::vector<Victim> victims_;
  std::vector<std::uint8_t> missed_;
  std::size_t crossing_ = 0;
  bool counting_ = true;  // not so while a prefetch is taken
  CodeLines code_lines_;
  probes::Buckets buckets_;
  probes::Misses misses_;
  probes::Regions regions_;
  std::uint64_t last_line_ = ~0ULL;
  std::uint64_t instructions_ = 0, accesses_ = 0, absent_ = 0, fetched_ = 0;
};

// A kept trace through one shard of a machine.
Result<ShardResult> replay_shard(const std::string& path, const machine::MachineConfig& machine,
                                 const ShardOptions& options, const std::vector<Placed>& placed);

}  // namespace stallscope::session
