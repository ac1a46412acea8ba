// SPDX-License-Identifier: Apache-2.0
// How many accesses a second the machine takes on one core, by kind of stream.
// machine_bench [STREAM]... runs only the named streams, one pass each (for callgrind).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "machine/machine.h"
#include "machine/passes.h"

namespace {

using namespace stallscope;
using namespace stallscope::machine;
using Addresses = std::vector<std::uint64_t>;

constexpr std::size_t kAccesses = 8'000'000;

CacheConfig cache(const char* name, std::uint64_t size, std::uint32_t ways) {
  CacheConfig config;
  config.name = name;
  config.size = size;
  config.ways = ways;
  return config;
}

MachineConfig three_levels() {
  MachineConfig config;
  config.caches = {cache("L1", 32 << 10, 8), cache("L2", 1 << 20, 16), cache("L3", 32 << 20, 16)};
  return config;
}

MachineConfig with_tlbs(MachineConfig config) {
  config.tlbs = {{"ITLB", Holds::instructions, 64, 8, 4096, 0},
                 {"DTLB", Holds::data, 64, 4, 4096, 0},
                 {"STLB", Holds::both, 1536, 12, 4096, 7}};
  return config;
}

// As current server cores are described: everything at once.
MachineConfig server() {
  MachineConfig config = with_tlbs(three_levels());
  config.prefetchers = {{"stream", 1, 2}};
  config.mapping.random = true;
  return config;
}

// A small array walked in words: seven of eight accesses go to the line of the one before.
Addresses words() {
  Addresses addresses(kAccesses);
  for (std::size_t i = 0; i < kAccesses; ++i) addresses[i] = 0x10000 + i * 8 % 16384;
  return addresses;
}

// Hits of L1 in any way of any set.
Addresses first_level() {
  std::mt19937_64 random(1);
  Addresses addresses(kAccesses);
  for (std::uint64_t& address : addresses) address = 0x10000 + random() % (32 << 10) / 8 * 8;
  return addresses;
}

// The inner loop of a naive matrix product of 300 x 300 doubles: one row, one column, one sum.
Addresses matmul() {
  constexpr std::uint64_t n = 300;
  Addresses addresses;
  for (std::uint64_t i = 0; addresses.size() < kAccesses; i = (i + 1) % n)
    for (std::uint64_t j = 0; j < n && addresses.size() < kAccesses; ++j)
      for (std::uint64_t k = 0; k < n; ++k) {
        addresses.push_back(0x1000000 + (i * n + k) * 8);
        addresses.push_back(0x2000000 + (k * n + j) * 8);
      }
  addresses.resize(kAccesses);
  return addresses;
}

// Zipf's law over a million lines: the line of rank r with a chance of 1/r, ranks in no order.
Addresses zipf() {
  constexpr std::uint64_t lines = 1'000'000;
  std::mt19937_64 random(1);
  std::vector<double> sums(lines);
  double sum = 0;
  for (std::uint64_t r = 0; r < lines; ++r) sums[r] = sum += 1.0 / static_cast<double>(r + 1);
  std::vector<std::uint64_t> line_of_rank(lines);
  for (std::uint64_t r = 0; r < lines; ++r) line_of_rank[r] = r;
  std::shuffle(line_of_rank.begin(), line_of_rank.end(), random);
  std::uniform_real_distribution<double> draw(0, sum);
  Addresses addresses(kAccesses);
  for (std::uint64_t& address : addresses) {
    const auto rank = std::lower_bound(sums.begin(), sums.end(), draw(random)) - sums.begin();
    address = 0x10000000 + line_of_rank[static_cast<std::size_t>(rank)] * 64;
  }
  return addresses;
}

// Every access misses everywhere.
Addresses scan() {
  Addresses addresses(kAccesses);
  for (std::size_t i = 0; i < kAccesses; ++i) addresses[i] = 0x10000000 + i * 64;
  return addresses;
}

struct CountMisses {
  std::uint64_t evictions = 0, cycles = 0;
  void on_miss(const Miss& miss) { evictions += miss.victim != kNoVictim; }
  void on_translation_miss(const TranslationMiss&) {}
  void on_access_done(const Served& served) { cycles += served.latency; }
};

// Of this thread, so that a busy neighbour does not count.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds(const std::function<void()>& work) {
  const double start = processor_seconds();
  work();
  return processor_seconds() - start;
}

using Run = void (*)(Machine&, const Addresses&);

void one_by_one(Machine& machine, const Addresses& addresses) {
  CountMisses probe;
  for (const std::uint64_t address : addresses) machine.data(address, 8, AccessKind::load, probe);
}

void stores(Machine& machine, const Addresses& addresses) {
  CountMisses probe;
  for (const std::uint64_t address : addresses) machine.data(address, 8, AccessKind::store, probe);
}

void batch(Machine& machine, const Addresses& addresses) {
  const std::vector<std::uint32_t> sizes(addresses.size(), 8);
  run_loads(machine, addresses, sizes);
}

double best(const MachineConfig& config, const Addresses& addresses, Run run, int passes) {
  auto machine = make_machine(config);
  double least = 1e9;
  for (int pass = 0; pass < passes; ++pass)
    least = std::min(least, seconds([&] { run(**machine, addresses); }));
  return static_cast<double>(addresses.size()) / least / 1e6;
}

struct Stream {
  const char* name;
  Addresses (*make)();
};
constexpr Stream kStreams[] = {{"words", words},
                               {"first_level", first_level},
                               {"matmul", matmul},
                               {"zipf", zipf},
                               {"scan", scan}};

bool chosen(const char* name, int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (!std::strcmp(argv[i], name)) return true;
  return argc == 1;
}

void show_policies(const Addresses& addresses, int passes) {
  for (const PolicyEntry& policy : policies()) {
    MachineConfig config = three_levels();
    for (CacheConfig& level : config.caches) level.policy = policy.name;
    std::printf("  %s %.1f", std::string(policy.name).c_str(),
                best(config, addresses, one_by_one, passes));
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const int passes = argc == 1 ? 5 : 1;
  std::printf("million accesses a second, three levels\n");
  std::printf("%-12s %8s %8s %8s %8s %8s\n", "", "loads", "stores", "batch", "TLBs", "server");
  for (const Stream& stream : kStreams) {
    if (!chosen(stream.name, argc, argv)) continue;
    const Addresses addresses = stream.make();
    std::printf("%-12s %8.1f", stream.name, best(three_levels(), addresses, one_by_one, passes));
    if (argc == 1)
      std::printf(" %8.1f %8.1f %8.1f %8.1f", best(three_levels(), addresses, stores, passes),
                  best(three_levels(), addresses, batch, passes),
                  best(with_tlbs(three_levels()), addresses, one_by_one, passes),
                  best(server(), addresses, one_by_one, passes));
    std::printf("\n");
    if (argc == 1) show_policies(addresses, 2);
  }
}
