// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include <map>
#include <vector>

#include "session/interleaver.h"
#include "session/scheduler.h"
#include "session/source_sampler.h"

using namespace stallscope;
using namespace stallscope::session;

namespace {

// Blocks of one operation each: block 0 loads, block 1 stores.
stream::CodeTable two_blocks() {
  stream::CodeTable code;
  code.operations = {{8, 0, SS_OP_KIND_LOAD, 0}, {8, 0, SS_OP_KIND_STORE, 0}};
  code.exits = {{0, 0, 1, 1}, {1, 1, 1, 1}};
  return code;
}

struct Access {
  std::uint32_t thread;
  std::uint64_t address;
  bool writes;
};

// What each thread reads is who wrote last, and how often that one had written by then.
struct Order {
  std::vector<Access> done;
  std::map<std::uint32_t, std::vector<std::size_t>> reads;  // by thread
  std::map<std::uint64_t, std::size_t> memory;
  std::map<std::uint32_t, std::size_t> writes;
  std::uint32_t thread = 1;
  std::size_t switches = 0;

  void turn(std::uint32_t to) {
    switches += to != thread;
    thread = to;
  }
  void on_block(std::uint32_t exit, const stream::Exit&, const std::uint64_t* addresses) {
    done.push_back({thread, addresses[0], exit == 1});
    if (exit == 1)
      memory[addresses[0]] = thread * 1'000'000 + ++writes[thread];
    else
      reads[thread].push_back(memory[addresses[0]]);
  }
  Status on_record(unsigned, const std::uint64_t*, std::uint32_t) { return Done{}; }
};

void switch_to(Interleaver<Order>& mixed, std::uint32_t thread) {
  const std::uint64_t words[3] = {std::uint64_t{SS_THREAD_SWITCH} << 56 | std::uint64_t{3} << 32 |
                                  thread};
  REQUIRE(mixed.on_record(SS_THREAD_SWITCH, words, 3).ok());
}

}  // namespace

TEST_CASE("threads that run together read what they read in turns, whatever the seed") {
  const stream::CodeTable code = two_blocks();
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Order in_turns, order;
    Interleaver<Order> mixed(order, code, 3, 8, seed);
    probes::Random random(seed);
    for (unsigned turn = 0; turn < 60; ++turn) {
      const auto thread = static_cast<std::uint32_t>(1 + random.next() % 5);
      switch_to(mixed, thread);
      in_turns.turn(thread);
      for (std::uint64_t n = random.next() % 40; n > 0; --n) {
        const bool shared = random.next() % 8 == 0;
        const std::uint64_t address = 8 * (shared ? random.next() % 6 : 100 * thread + n % 7);
        const auto exit = static_cast<std::uint32_t>(random.next() % 2);
        mixed.on_block(exit, code.exits[exit], &address);
        in_turns.on_block(exit, code.exits[exit], &address);
      }
    }
    mixed.finish();
    CHECK(order.done.size() == in_turns.done.size());
    CHECK(order.reads == in_turns.reads);
    CHECK(order.memory == in_turns.memory);
    CHECK(order.switches > in_turns.switches);
  }
}

TEST_CASE("turns that touch each other's words keep their order") {
  const stream::CodeTable code = two_blocks();
  Order order;
  Interleaver<Order> mixed(order, code, 1, 8, 1);
  const std::uint64_t lock = 64;
  for (std::uint32_t thread = 1; thread <= 4; ++thread) {
    switch_to(mixed, thread);
    for (int n = 0; n < 10; ++n) mixed.on_block(1, code.exits[1], &lock);
  }
  mixed.finish();
  REQUIRE(order.done.size() == 40);
  for (std::size_t i = 0; i < 40; ++i) CHECK(order.done[i].thread == 1 + i / 10);
}

TEST_CASE("the default scheduler fills chips in turn, and rotation parts every two threads") {
  machine::ChipsConfig chips;
  chips.chips = chips.cores = chips.threads = 2;
  Scheduler scheduler(chips, {{7, 5}}, 1);
  CHECK(scheduler.context_of(1) == 0);
  CHECK(scheduler.context_of(2) == 4);
  CHECK(scheduler.context_of(3) == 2);
  CHECK(scheduler.context_of(7) == 5);
  scheduler.end(2);
  CHECK(scheduler.context_of(8) == 4);
  for (std::uint32_t thread = 10; thread < 22; ++thread) scheduler.context_of(thread);
  std::map<std::pair<std::uint32_t, std::uint32_t>, bool> apart;
  for (int stretch = 0; stretch < 4; ++stretch) {
    scheduler.rotate();
    for (std::uint32_t a = 10; a < 22; ++a)
      for (std::uint32_t b = 10; b < a; ++b)
        if (chips.chip_of(scheduler.context_of(a)) != chips.chip_of(scheduler.context_of(b)))
          apart[{a, b}] = true;
  }
  CHECK(apart.size() == 66);
}

TEST_CASE("samples are one in so many, and the register may hold another miss") {
  using machine::Source;
  SourceSampling options;
  options.on = true;
  options.period = 10;
  SourceSampler exact(options, 1);
  options.exact = false;
  options.skid = 5;
  SourceSampler late(options, 1);
  for (std::uint64_t now = 0; now < 100'000; ++now) {
    const Source source = now % 4 ? Source::memory : Source::remote_cache;
    for (SourceSampler* one : {&exact, &late}) one->miss(now, 1, now % 4, source);
  }
  CHECK(exact.samples() == doctest::Approx(2500).epsilon(0.02));
  const SharedSampleTable sure = exact.take(), unsure = late.take();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < sure.rows(); ++i) CHECK(sure.line[i] == 0);
  for (std::size_t i = 0; i < unsure.rows(); ++i) wrong += unsure.wanted[i] == 0;
  CHECK(wrong > unsure.rows() / 2);
}

TEST_CASE("several criteria take turns, and the period adapts to the rate of misses") {
  using machine::Source;
  SourceSampling options;
  options.on = true;
  options.period = 1;
  options.slice = 100;
  options.criteria = {1u << static_cast<unsigned>(Source::memory),
                      1u << static_cast<unsigned>(Source::remote_memory)};
  SourceSampler turns(options, 1);
  for (std::uint64_t now = 0; now < 1000; ++now)
    turns.miss(now, 1, now % 2, now % 2 ? Source::memory : Source::remote_memory);
  const SharedSampleTable found = turns.take();
  CHECK(found.rows() == 500);
  for (std::size_t i = 0; i < found.rows(); ++i)
    CHECK(found.line[i] == (found.instruction[i] / 100 % 2 ? 0 : 1));
  options = {};
  options.on = true;
  options.period = 0;
  options.interval = 1000;
  SourceSampler adapts(options, 1);
  for (std::uint64_t now = 0; now < 5'000'000; now += 5)
    adapts.miss(now, 1, 0, Source::remote_cache);
  CHECK(adapts.samples() == doctest::Approx(5000).epsilon(0.15));
}
