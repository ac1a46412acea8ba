// SPDX-License-Identifier: Apache-2.0
// How fast a recording's stream goes through the default machine, without a ring and without
// decoding: what the recorder's thread does beside the target.
//
//   simulation_bench STREAM.ss
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "session/simulation.h"
#include "stream/parser.h"
#include "stream/reader.h"

using namespace stallscope;

namespace {

// As src/stallscope/machines/presets/default.toml has it.
machine::MachineConfig default_machine() {
  using machine::Holds;
  machine::MachineConfig config;
  const auto cache = [&](const char* name, Holds holds, std::uint64_t kib, std::uint32_t ways,
                         std::uint32_t latency) {
    machine::CacheConfig one;
    one.name = name;
    one.holds = holds;
    one.size = kib << 10;
    one.ways = ways;
    one.latency = latency;
    config.caches.push_back(one);
  };
  cache("L1I", Holds::instructions, 32, 8, 4);
  cache("L1D", Holds::data, 32, 8, 4);
  cache("L2", Holds::both, 1024, 16, 14);
  cache("L3", Holds::both, 8192, 16, 50);
  config.tlbs = {{"ITLB", Holds::instructions, 64, 4, 4096, 0},
                 {"DTLB", Holds::data, 64, 4, 4096, 0},
                 {"STLB", Holds::both, 2048, 8, 4096, 7}};
  config.memory_latency = 200;
  config.page_walk_latency = 40;
  return config;
}

// As a recorder counts blocks.
struct Counting {
  session::Simulation& simulation;
  const stream::CodeTable& code;
  std::vector<std::uint64_t> taken{};

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    simulation.on_block(exit, info, addresses);
  }
  std::size_t on_blocks(std::span<const std::uint64_t> words) {
    if (taken.size() < code.exits.size()) taken.resize(code.exits.size());
    return simulation.on_blocks(words, taken.data());
  }
  Status on_record(unsigned tag, const std::uint64_t* words, std::uint32_t count) {
    return simulation.on_record(tag, words, count);
  }
};

// Collects as much as a ring's buffers hold, then runs it.
struct Collect {
  static constexpr std::size_t kWords = 1 << 19;
  stream::CodeTable code;
  std::unique_ptr<session::Simulation> simulation;
  std::vector<std::uint64_t> words{};
  std::chrono::duration<double> taken{};

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    words.push_back(SS_BLOCK_HEAD(exit, info.operations));
    words.insert(words.end(), addresses, addresses + info.operations);
    if (words.size() >= kWords) (void)run();
  }
  Status on_record(unsigned, const std::uint64_t* record, std::uint32_t count) {
    words.insert(words.end(), record, record + count);
    return Done{};
  }
  Status run() {
    Counting counting{*simulation, code};
    const auto start = std::chrono::steady_clock::now();
    Status parsed = stream::parse(std::span<const std::uint64_t>(words), code, counting);
    taken += std::chrono::steady_clock::now() - start;
    words.clear();
    return parsed;
  }
};

int fail(const Error& error) {
  std::fprintf(stderr, "%s %s\n", error.what.c_str(), error.why.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "simulation_bench STREAM.ss\n"), 2;
  auto reader = stream::TraceReader::open(argv[1]);
  if (!reader) return fail(reader.error());
  Collect collect;
  auto simulation = session::Simulation::make(default_machine(), collect.code, {});
  if (!simulation) return fail(simulation.error());
  collect.simulation = std::move(*simulation);
  if (Status read = reader->for_each(collect); !read) return fail(read.error());
  if (Status run = collect.run(); !run) return fail(run.error());
  const double accesses = static_cast<double>(collect.simulation->accesses());
  std::printf("%.1f million accesses, %.1f million a second\n", accesses / 1e6,
              accesses / 1e6 / collect.taken.count());
}
