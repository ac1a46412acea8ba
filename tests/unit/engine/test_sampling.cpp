// SPDX-License-Identifier: Apache-2.0
// A simulation whose PMU samples in every way it can, on streams whose answers are known.
#include <doctest.h>

#include <map>
#include <numeric>
#include <random>

#include "machine_words.h"
#include "session/pmu.h"
#include "session/simulation.h"
#include "stream/parser.h"
#include "stream_words.h"

using namespace stallscope;
using namespace stallscope::session;
using machine::words::cache;
using stream::words::load;
using stream::words::store;
using stream::words::Stream;

namespace {

constexpr std::uint64_t kNear = 0x100000, kFar = 0x40000000;  // heap blocks of sites 1 and 2
constexpr std::uint32_t kNearLatency = 20, kFarLatency = 100;
constexpr std::uint64_t kNearLines = 64, kFarLines = 1 << 20;

// The first data cache has one line, so that every load of another line misses; the second holds
// all of the near block and hardly anything of the far one.
machine::MachineConfig two_latencies() {
  machine::MachineConfig config =
      machine::words::of({cache("L1I", 4, 1), cache("L1D", 1, 1), cache("L2", 16, 8)});
  config.caches[0].holds = machine::Holds::instructions;
  config.caches[1].holds = machine::Holds::data;
  config.caches[0].latency = config.caches[1].latency = 2;
  config.caches[2].latency = kNearLatency;
  config.memory_latency = kFarLatency;
  config.tlbs.push_back({"DTLB", machine::Holds::data, 16, 4, 4096, 0});
  config.page_walk_latency = 0;
  return config;
}

constexpr unsigned kL1I = 0, kL1D = 1, kL2 = 2;

struct Program {
  Stream stream;
  std::uint64_t near = 0, far = 0;  // loads so far

  Program() {
    stream.site(1);
    stream.site(2);
    stream.alloc(kNear, kNearLines * 64, 1);
    stream.alloc(kFar, kFarLines * 64, 2);
  }
  void loads_near(std::uint32_t exit, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) stream.run(exit, {kNear + near++ % kNearLines * 64});
  }
  void loads_far(std::uint32_t exit, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) stream.run(exit, {kFar + far++ % kFarLines * 64});
  }
};

SimulationTables simulate(const Stream& stream, const SimulationOptions& options,
                          const machine::MachineConfig& config = two_latencies()) {
  stream::CodeTable code;
  auto made = Simulation::make(config, code, options);
  REQUIRE(made);
  REQUIRE(stream::parse(stream.words, code, **made));
  return (*made)->tables();
}

// Exact misses of a level, or weights of samples, by allocation site.
std::map<std::uint32_t, double> misses_by_site(const SimulationTables& tables, unsigned level) {
  std::map<std::uint32_t, double> by_site;
  for (std::size_t i = 0; i < tables.miss.rows(); ++i)
    if (tables.miss.level[i] == level)
      by_site[tables.bucket.site[tables.miss.bucket[i]]] +=
          static_cast<double>(tables.miss.misses[i]);
  return by_site;
}
std::map<std::uint32_t, double> sampled_by_site(const SimulationTables& tables) {
  std::map<std::uint32_t, double> by_site;
  for (std::size_t i = 0; i < tables.sample.rows(); ++i)
    by_site[tables.bucket.site[tables.sample.bucket[i]]] +=
        static_cast<double>(tables.sample.weight[i]);
  return by_site;
}
double share(std::map<std::uint32_t, double> by_site, std::uint32_t site) {
  double all = 0;
  for (const auto& [one, count] : by_site) all += count;
  return by_site[site] / all;
}

Program alternating(std::uint64_t phases, std::uint64_t loads) {
  Program program;
  const std::uint32_t one_load = program.stream.block({load}, 1);
  for (std::uint64_t i = 0; i < phases; ++i) {
    program.loads_near(one_load, loads);
    program.loads_far(one_load, loads);
  }
  return program;
}

}  // namespace

TEST_CASE("a sample has the registers of its miss: address, operation, latency, who served it") {
  const Program program = alternating(4, 3000);
  SimulationOptions options;
  options.period = 10;
  const SimulationTables tables = simulate(program.stream, options);
  REQUIRE(tables.sample.rows() > 2000);
  bool near_seen = false, far_seen = false;
  for (std::size_t i = 0; i < tables.sample.rows(); ++i) {
    const std::uint64_t address = tables.sample.address[i];
    const bool is_near = address < kFar;
    CHECK((is_near ? address - kNear : address - kFar) % 64 == 0);
    CHECK(tables.bucket.site[tables.sample.bucket[i]] == (is_near ? 1 : 2));
    CHECK(tables.sample.operation[i] == 0);
    CHECK(tables.sample.block[i] == kNone32);
    CHECK(tables.sample.weight[i] == 10);
    if (tables.sample.served[i] == kL2) {
      CHECK(tables.sample.latency[i] == kNearLatency);
      near_seen |= is_near;
    } else {
      CHECK(tables.sample.served[i] == probes::kServedByMemory);
      CHECK(tables.sample.latency[i] == kFarLatency);
      far_seen |= !is_near;
    }
  }
  CHECK(near_seen);
  CHECK(far_seen);
}

TEST_CASE("tagging loads underestimates what is slow by the loads that pass unseen") {
  // Phases are long against latency and gap, so in each of them there is a tag every latency - 1 +
  // gap loads; half of all misses are far ones.
  const Program program = alternating(4, 50'000);
  SimulationOptions options;
  options.tagged = true;
  options.period = 1;
  const SimulationTables tables = simulate(program.stream, options);
  const double near = 1.0 / (kNearLatency - 1 + probes::TagUnit::kGap);
  const double far = 1.0 / (kFarLatency - 1 + probes::TagUnit::kGap);
  CHECK(share(misses_by_site(tables, kL1D), 2) == doctest::Approx(0.5));
  CHECK(share(sampled_by_site(tables), 2) == doctest::Approx(far / (near + far)).epsilon(0.03));
  CHECK(static_cast<double>(tables.tags) == doctest::Approx(200'000 * (near + far)).epsilon(0.03));
  CHECK(tables.loads == 400'000);
  CHECK(tables.sample_events == tables.tags);  // every load misses
}

TEST_CASE("stores are counted but never tagged") {
  Program program;
  const std::uint32_t one_load = program.stream.block({load}, 1);
  const std::uint32_t one_store = program.stream.block({store}, 1);
  for (int i = 0; i < 20'000; ++i) {
    program.loads_near(one_load, 1);
    program.loads_far(one_store, 1);
  }
  SimulationOptions options;
  options.tagged = true;
  const SimulationTables tables = simulate(program.stream, options);
  CHECK(share(misses_by_site(tables, kL1D), 2) == doctest::Approx(0.5));
  CHECK(share(sampled_by_site(tables), 2) == 0);
  CHECK(tables.loads == 20'000);
}

TEST_CASE("a tagged load that does not qualify is reported to nobody") {
  const Program program = alternating(4, 20'000);
  SimulationOptions options;
  options.tagged = true;
  options.period = 1;
  options.event = kL2;  // the near ones hit it
  const SimulationTables tables = simulate(program.stream, options);
  CHECK(tables.sample_events < tables.tags / 2);
  CHECK(tables.sample.rows() == tables.sample_events);
  CHECK(share(sampled_by_site(tables), 2) > 0.99);
}

TEST_CASE("only accesses that are slow enough are counted and sampled") {
  const Program program = alternating(10, 1000);
  SimulationOptions options;
  options.period = 3;
  for (const std::uint32_t latency : {0u, kNearLatency, kNearLatency + 1, kFarLatency}) {
    options.min_latency = latency;
    const SimulationTables tables = simulate(program.stream, options);
    const auto exact = misses_by_site(tables, kL1D);
    double counted = 0;
    for (const auto& [site, count] : exact) counted += count;
    CAPTURE(latency);
    // The far ones leave nothing of the near ones behind, so each phase begins with slow ones.
    CHECK(counted == (latency > kNearLatency ? 10'000 + 10 * kNearLines : 20'000));
    CHECK(static_cast<double>(tables.sample_events) == counted);
    for (const std::uint32_t one : tables.sample.latency) CHECK(one >= latency);
    CHECK(tables.level.misses[kL1D] == 20'000);  // what the caches did is not filtered
  }
  options.min_latency = kFarLatency + 1;
  CHECK(simulate(program.stream, options).sample_events == 0);
}

TEST_CASE(
    "misses of instructions are counted by block and address, and as often as the cache says") {
  Program program;
  std::vector<std::uint32_t> exits;
  for (int i = 0; i < 12; ++i) exits.push_back(program.stream.block({load}, 3));  // a line each
  std::mt19937_64 random(1);
  for (int i = 0; i < 30'000; ++i) program.loads_near(exits[random() % exits.size()], 1);
  SimulationOptions options;
  options.event = kL1I;
  options.event_code = true;
  options.period = 5;
  const SimulationTables tables = simulate(program.stream, options);
  std::map<std::uint64_t, double> missed, sampled;
  double all = 0;
  for (std::size_t i = 0; i < tables.code_miss.rows(); ++i) {
    CHECK(tables.code_miss.address[i] == 0x400000 + 64 * tables.code_miss.block[i]);
    CHECK(tables.code_miss.operation[i] == tables.code_miss.block[i]);
    if (tables.code_miss.level[i] != kL1I) continue;
    missed[tables.code_miss.address[i]] += static_cast<double>(tables.code_miss.misses[i]);
    all += static_cast<double>(tables.code_miss.misses[i]);
  }
  CHECK(all == static_cast<double>(tables.level.misses[kL1I]));
  CHECK(tables.sample_events == tables.level.misses[kL1I]);
  CHECK(missed.size() == 12);
  for (std::size_t i = 0; i < tables.sample.rows(); ++i) {
    CHECK(tables.sample.bucket[i] == kNone32);
    sampled[tables.sample.address[i]] += static_cast<double>(tables.sample.weight[i]);
  }
  for (const auto& [address, count] : missed)
    CHECK(sampled[address] / all == doctest::Approx(count / all).epsilon(0.25));
}

TEST_CASE("data misses are no events where instruction misses are, and the other way round") {
  Program program;
  const std::uint32_t first = program.stream.block({load}, 1);
  program.loads_far(first, 1000);
  SimulationOptions options;
  options.event = kL2;
  CHECK(simulate(program.stream, options).sample_events == 1000);
  options.event_code = true;
  CHECK(simulate(program.stream, options).sample_events == 1);
}

TEST_CASE("what the handler costs is known, and changes nothing else") {
  const Program program = alternating(4, 5000);
  SimulationOptions options;
  options.period = 100;
  const SimulationTables plain = simulate(program.stream, options);
  options.handler_cost = 700;
  const SimulationTables costly = simulate(program.stream, options);
  CHECK(costly.interrupts == costly.sample.rows());
  CHECK(costly.handler_cycles == 700 * costly.interrupts);
  CHECK(costly.sample.address == plain.sample.address);
  CHECK(costly.level.misses == plain.level.misses);
  CHECK(costly.miss.misses == plain.miss.misses);
  // Instructions, and what data and the one line of code were waited for.
  const std::uint64_t near_waits = (20'000 - kNearLines) * kNearLatency + kNearLines * kFarLatency;
  const std::uint64_t least = 40'000 + near_waits + 20'000 * kFarLatency;
  CHECK(costly.program_cycles >= least);
  CHECK(costly.program_cycles <= least + (kNearLines * 4 + 1) * kFarLatency);
  CHECK(plain.program_cycles == 0);
}

TEST_CASE("a handler that touches the caches is told from the program, which is known without it") {
  const Program program = alternating(4, 5000);
  SimulationOptions options;
  options.period = 50;
  const SimulationTables plain = simulate(program.stream, options);
  options.perturb = true;
  const SimulationTables disturbed = simulate(program.stream, options);
  CHECK(disturbed.level.undisturbed_misses == plain.level.misses);
  CHECK(disturbed.level.accesses[kL1D] == plain.level.accesses[kL1D]);
  CHECK(disturbed.level.misses[kL2] > plain.level.misses[kL2]);
  CHECK(disturbed.level.handler_misses[kL2] > 0);
  CHECK(disturbed.handler_cycles > 0);  // what it waits, even though an interrupt costs nothing
  // Misses of the program are attributed, those of the handler are not.
  double counted = 0;
  for (const auto& [site, count] : misses_by_site(disturbed, kL1D)) counted += count;
  CHECK(counted == static_cast<double>(disturbed.level.misses[kL1D]));
  CHECK(plain.level.undisturbed_misses == plain.level.misses);
}

TEST_CASE("disturbance grows with the rate of samples") {
  const Program program = alternating(4, 5000);
  SimulationOptions options;
  options.perturb = true;
  std::uint64_t before = ~0ULL;
  for (const std::uint64_t period : {20, 200, 2000}) {
    options.period = period;
    const SimulationTables tables = simulate(program.stream, options);
    CHECK(tables.level.misses[kL2] < before);
    before = tables.level.misses[kL2];
  }
}

TEST_CASE("a budget's samples weigh what they stand for") {
  const Program program = alternating(6, 60'000);
  SimulationOptions options;
  options.budget = 0.4;
  options.handler_cost = 800;
  const SimulationTables tables = simulate(program.stream, options);
  const auto all = static_cast<double>(tables.program_cycles + tables.handler_cycles);
  CHECK(static_cast<double>(tables.handler_cycles) / all == doctest::Approx(0.4).epsilon(0.03));
  const auto weight =
      std::accumulate(tables.sample.weight.begin(), tables.sample.weight.end(), 0.0);
  CHECK(weight == doctest::Approx(static_cast<double>(tables.sample_events)).epsilon(0.05));
  CHECK(share(sampled_by_site(tables), 2) == doctest::Approx(0.5).epsilon(0.05));
  // Far misses take five times as long, so they are sampled five times as often.
  double far = 0;
  for (const std::uint32_t bucket : tables.sample.bucket) far += tables.bucket.site[bucket] == 2;
  CHECK(far / static_cast<double>(tables.sample.rows()) > 0.7);
}

TEST_CASE("all of it at once: classified, with residency, tagged, disturbed, on a budget") {
  const Program program = alternating(4, 5000);
  SimulationOptions options;
  options.evictions = options.classify = options.tagged = options.perturb = true;
  options.handler_cost = 100;
  options.budget = 0.2;
  const SimulationTables tables = simulate(program.stream, options);
  CHECK(tables.sample.rows() > 10);
  CHECK(tables.level.misses[kL1D] == 40'000);
  CHECK(tables.miss_class.rows() > 0);
  CHECK(tables.resident.rows() > 0);
}

TEST_CASE("options that make no sense are refused") {
  stream::CodeTable code;
  const auto refused = [&](auto change) {
    SimulationOptions options;
    change(options);
    return !Simulation::make(two_latencies(), code, options);
  };
  CHECK(refused([](auto& o) { o.event = 4; }));
  CHECK(refused([](auto& o) { o.event = kL1I; }));
  CHECK(refused([](auto& o) { o.event = kL1D, o.event_code = true; }));
  CHECK(refused([](auto& o) { o.event_code = true; }));
  CHECK(refused([](auto& o) { o.event = kL1I, o.event_code = o.tagged = true; }));
  CHECK(refused([](auto& o) { o.budget = 1; }));
  CHECK(refused([](auto& o) { o.budget = -0.1; }));
  CHECK_FALSE(refused([](auto& o) { o.event = kL2, o.event_code = true; }));
}

TEST_CASE("an instruction without operations is named by the nearest one on its stretch of code") {
  stream::CodeTable code;
  // 100 101 102 | 500 501 | 900: three stretches, operations at 101 and at 500.
  for (const std::uint64_t address : {100, 101, 102, 500, 501, 900})
    code.instructions.push_back({address, 1, false});
  code.operations = {{8, 1, 0, 0}, {8, 3, 0, 0}};
  code.blocks.push_back({100, 0, 1, 0, 2, 0, 6, 0, 6});
  code.blocks.push_back({900, 1, 1, 2, 0, 5, 1, 6, 1});  // elsewhere it begins a block
  const CodePlaces places(code);
  CHECK(places.find(0, 0).operation == 0);
  CHECK(places.find(0, 2).operation == 0);
  CHECK(places.find(0, 4).operation == 1);
  CHECK(places.find(0, 4).block == 0);
  CHECK(places.find(0, 5).operation == kNone32);
  CHECK(places.find(0, 5).block == 1);
}
