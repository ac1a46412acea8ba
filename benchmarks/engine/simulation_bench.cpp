// SPDX-License-Identifier: Apache-2.0
// How fast a recording's stream goes through the default machine, without a ring and without
// decoding: what the recorder's thread does beside the target.
//
//   simulation_bench STREAM.ss [rounds]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "session/simulation.h"
#include "stream/parser.h"
#include "stream/reader.h"

using namespace stallscope;

namespace {

constexpr std::size_t kMostWords = 40'000'000;  // 320 MB

struct Collect {
  std::vector<std::uint64_t> words;
  bool room() const { return words.size() < kMostWords; }

  void on_block(std::uint32_t exit, const stream::Exit& info, const std::uint64_t* addresses) {
    if (!room()) return;
    words.push_back(SS_BLOCK_TAG << 56 | exit);
    words.insert(words.end(), addresses, addresses + info.operations);
  }
  Status on_record(unsigned, const std::uint64_t* record, std::uint32_t count) {
    if (room()) words.insert(words.end(), record, record + count);
    return Done{};
  }
};

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

int fail(const Error& error) {
  std::fprintf(stderr, "%s %s\n", error.what.c_str(), error.why.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "simulation_bench STREAM.ss [rounds]\n"), 2;
  auto reader = stream::TraceReader::open(argv[1]);
  if (!reader) return fail(reader.error());
  Collect collect;
  if (Status read = reader->for_each(collect); !read) return fail(read.error());
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 3;
  for (int round = 0; round < rounds; ++round) {
    stream::CodeTable code;
    auto simulation = session::Simulation::make(default_machine(), code, {});
    if (!simulation) return fail(simulation.error());
    const auto start = std::chrono::steady_clock::now();
    if (Status parsed =
            stream::parse(std::span<const std::uint64_t>(collect.words), code, **simulation);
        !parsed)
      return fail(parsed.error());
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    const double accesses = static_cast<double>((*simulation)->accesses());
    std::printf("%.1f million accesses, %.1f million a second\n", accesses / 1e6,
                accesses / 1e6 / taken.count());
  }
}
