// SPDX-License-Identifier: Apache-2.0
// Words for tests of simulated cores: instructions, programs of blocks, a small machine, a run.
#pragma once

#include <doctest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "pipeline/pipeline.h"
#include "stallscope_records.h"

namespace stallscope::pipeline::words {

using Code = std::vector<std::uint8_t>;

struct Access {
  std::uint8_t kind;
  std::uint32_t size = 8;
};
struct Line {
  Code bytes;
  std::vector<Access> accesses = {};
};

inline const Line kAdd{{0x48, 0x01, 0xd8}};                                   // add rax, rbx
inline const Line kOtherAdd{{0x48, 0x01, 0xd9}};                              // add rcx, rbx
inline const Line kDivide{{0x48, 0xf7, 0xf3}};                                // div rbx
inline const Line kLoad{{0x48, 0x8b, 0x00}, {{SS_OP_KIND_LOAD}}};             // mov rax, [rax]
inline const Line kStore{{0x48, 0x89, 0x0b}, {{SS_OP_KIND_STORE}}};           // mov [rbx], rcx
inline const Line kSum{{0x48, 0x03, 0x0b}, {{SS_OP_KIND_LOAD}}};              // add rcx, [rbx]
inline const Line kModify{{0x48, 0x01, 0x0b}, {{SS_OP_KIND_MODIFY}}};         // add [rbx], rcx
inline const Line kPrefetch{{0x0f, 0x18, 0x0b}, {{SS_OP_KIND_PREFETCH, 1}}};  // prefetcht0 [rbx]
inline const Line kFloat{{0xf2, 0x0f, 0x58, 0xc1}};                           // addsd xmm0, xmm1
inline const Line kBranch{{0x75, 0x00}};                                      // jnz

// A code table of blocks that follow each other in memory.
struct Program {
  stream::CodeTable code;
  std::uint64_t next = 0x400000;

  std::uint32_t block(const std::vector<Line>& lines) {
    stream::Block block{};
    block.address = next;
    block.first_exit = static_cast<std::uint32_t>(code.exits.size());
    block.exits = 1;
    block.first_operation = static_cast<std::uint32_t>(code.operations.size());
    block.first_instruction = static_cast<std::uint32_t>(code.instructions.size());
    block.first_byte = code.bytes.size();
    for (const Line& line : lines) {
      const auto index = static_cast<std::uint16_t>(block.instructions++);
      for (const Access& access : line.accesses)
        code.operations.push_back({access.size, index, access.kind, 0});
      block.operations += static_cast<std::uint32_t>(line.accesses.size());
      code.instructions.push_back({next, static_cast<std::uint8_t>(line.bytes.size()), false});
      code.bytes.append(line.bytes.begin(), line.bytes.end());
      next += line.bytes.size();
    }
    block.size = static_cast<std::uint32_t>(next - block.address);
    code.blocks.push_back(block);
    code.exits.push_back({static_cast<std::uint32_t>(code.blocks.size() - 1), block.first_operation,
                          block.operations, block.instructions});
    return block.first_exit;
  }
};

inline machine::MachineConfig small_machine() {
  machine::MachineConfig config;
  config.caches = {
      {.name = "L1I",
       .holds = machine::Holds::instructions,
       .size = 32768,
       .ways = 8,
       .latency = 1},
      {.name = "L1D", .holds = machine::Holds::data, .size = 32768, .ways = 8, .latency = 4},
      {.name = "L2", .size = 262144, .ways = 8, .latency = 14}};
  config.tlbs = {{.name = "DTLB", .holds = machine::Holds::data, .entries = 64, .ways = 4}};
  config.memory_latency = 200;
  config.page_walk_latency = 40;
  return config;
}

struct Run {
  explicit Run(Program& program, CoreConfig core = {}, PipelineOptions options = {},
               const machine::MachineConfig& config = small_machine()) {
    auto made = machine::make_machine(config);
    REQUIRE(made.ok());
    machine = std::move(*made);
    auto built = Pipeline::make(*machine, program.code, core, options);
    REQUIRE(built.ok());
    pipeline = std::move(*built);
    code = &program.code;
  }
  void block(std::uint32_t exit, const std::vector<std::uint64_t>& addresses = {}) {
    pipeline->on_block(code->exits[exit], addresses.data());
  }
  const EventCounts& end() {
    pipeline->finish();
    return pipeline->counts();
  }
  std::unique_ptr<machine::Machine> machine;
  std::unique_ptr<Pipeline> pipeline;
  const stream::CodeTable* code;
};

// What must hold of every run.
inline void check_sums(const Pipeline& core) {
  const EventCounts& counts = core.counts();
  CHECK(counts[Event::cycles] ==
        counts[Event::completion_cycles] + counts[Event::stall_cycles] + core.switch_cycles());
  std::uint64_t causes = 0;
  for (unsigned i = 0; i < kCauses; ++i)
    causes += counts.values[static_cast<unsigned>(Event::stall_data_cache) + i];
  CHECK(causes == counts[Event::stall_cycles]);
  const auto& charged = core.charged();
  CHECK(std::accumulate(charged.begin(), charged.end(), std::uint64_t{0}) == causes);
  const auto& sources = core.source_cycles();
  CHECK(std::accumulate(sources.begin(), sources.end(), std::uint64_t{0}) ==
        counts[Event::stall_data_cache]);
  std::uint64_t cycles = 0;
  for (const Slice& row : core.timeline()) cycles += row.counts[Event::cycles];
  CHECK(cycles == counts[Event::cycles]);
}

}  // namespace stallscope::pipeline::words
