// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include <random>
#include <vector>

#include "code/work.h"
#include "pipeline/calendar.h"
#include "pipeline/predictor.h"
#include "pipeline_words.h"

using namespace stallscope;
using namespace stallscope::pipeline;
using namespace stallscope::pipeline::words;

TEST_CASE("what an instruction asks of a core") {
  using namespace stallscope::code;
  const Work sum = work_of(kSum.bytes);
  CHECK(sum.kind == WorkKind::kInteger);
  CHECK(sum.loads);
  CHECK_FALSE(sum.stores);
  CHECK(sum.addresses[0] == kFirstGeneral + 3);
  CHECK(sum.reads[0] == kFirstGeneral + 1);
  CHECK(sum.writes[0] == kFirstGeneral + 1);
  CHECK(sum.writes[1] == kFlags);
  const Work zero = work_of(Code{0x31, 0xc0});  // xor eax, eax
  CHECK(zero.reads[0] == kNoCoreRegister);
  const Work branch = work_of(kBranch.bytes);
  CHECK(branch.flow == WorkFlow::kConditional);
  CHECK(branch.reads[0] == kFlags);
  const Work push = work_of(Code{0x55});  // push rbp
  CHECK(push.stacks);
  CHECK(push.stores);
  CHECK(work_of(kDivide.bytes).kind == WorkKind::kDivide);
  CHECK(work_of(kFloat.bytes).kind == WorkKind::kFloatAdd);
  CHECK(work_of(Code{0xc3}).flow == WorkFlow::kReturn);
  CHECK(work_of(Code{0xff, 0xe0}).flow == WorkFlow::kIndirectJump);  // jmp rax
  CHECK(work_of(Code{0x0f, 0x1f, 0x00}).kind == WorkKind::kNothing);
  CHECK(work_of(Code{0x06}).kind == WorkKind::kInteger);  // no instruction
}

TEST_CASE("units are taken by so many a cycle, and queues left when issued") {
  CoreConfig config;
  config.units[0] = 2;
  config.queues[0] = 6;
  Calendar calendar(config);
  calendar.advance(10);
  CHECK(calendar.take(0, 10, 1) == 10);
  CHECK(calendar.take(0, 10, 1) == 10);
  CHECK(calendar.take(0, 10, 1) == 11);
  CHECK(calendar.take(0, 10, 5) == 11);  // one of the two, until 15
  CHECK(calendar.take(0, 12, 1) == 12);
  CHECK(calendar.take(0, 12, 1) == 13);
  calendar.enter(6);
  CHECK_FALSE(calendar.has_room(1));
  calendar.leave(0, 11);
  calendar.advance(11);
  CHECK_FALSE(calendar.has_room(1));
  calendar.advance(12);
  CHECK(calendar.has_room(1));
  CHECK_FALSE(calendar.has_room(2));
}

TEST_CASE("predictors learn what repeats") {
  for (const char* kind : {"tage", "tournament"}) {
    CAPTURE(kind);
    CoreConfig config;
    config.predictor = kind;
    Predictor predictor(config);
    unsigned wrong = 0;
    for (int i = 0; i < 4000; ++i) {
      const bool right = predictor.conditional(0x1000, i % 3 == 0);
      if (i >= 2000) wrong += !right;
    }
    CHECK(wrong < 40);
    std::mt19937 random(1);
    wrong = 0;
    for (int i = 0; i < 4000; ++i) wrong += !predictor.conditional(0x2000, random() >> 31);
    CHECK(wrong > 1500);
    predictor.call(0x3005);
    predictor.call(0x4005);
    CHECK(predictor.returns(0x4005));
    CHECK(predictor.returns(0x3005));
    predictor.indirect(0x5000, 0x6000);
    CHECK(predictor.indirect(0x5000, 0x6000));
    CHECK_FALSE(predictor.indirect(0x5000, 0x7000));
  }
}

TEST_CASE("a chain of divisions takes their latencies, charged to the integer units") {
  Program program;
  const std::uint32_t exit = program.block({kDivide, kDivide, kDivide, kDivide, kDivide});
  CoreConfig core;
  Run run(program, core);
  for (int i = 0; i < 100; ++i) run.block(exit);
  const EventCounts& counts = run.end();
  const double each = static_cast<double>(counts[Event::cycles]) / 500;
  CHECK(each == doctest::Approx(core.divide_wide).epsilon(0.05));
  CHECK(counts[Event::stall_iu] > counts[Event::stall_cycles] * 9 / 10);
  CHECK(counts[Event::divides] == 500);
  check_sums(*run.pipeline);
}

TEST_CASE("a chain of loads that miss takes their latency, charged to their source") {
  Program program;
  const std::uint32_t exit = program.block({kLoad});
  Run run(program);
  for (std::uint64_t i = 0; i < 1000; ++i) run.block(exit, {0x10000000 + (i * 7919 % 16) * 64});
  const std::uint64_t hits = run.pipeline->counts()[Event::l1d_load_misses];
  CHECK(hits == 16);
  for (std::uint64_t i = 0; i < 1000; ++i) run.block(exit, {0x20000000 + i * 64});
  const EventCounts& counts = run.end();
  CHECK(counts[Event::from_memory] == 1016);
  CHECK(run.pipeline->source_cycles().back() > 1000 * 180);
  CHECK(counts[Event::stall_data_cache] > counts[Event::stall_cycles] * 8 / 10);
  check_sums(*run.pipeline);
}

TEST_CASE("independent misses overlap, as far as there are outstanding ones") {
  Program program;
  const std::uint32_t exit = program.block({kSum});
  std::uint64_t cycles[2];
  for (unsigned n = 0; n < 2; ++n) {
    CoreConfig core;
    core.misses = n == 0 ? 1 : 8;
    Run run(program, core);
    for (std::uint64_t i = 0; i < 1000; ++i) run.block(exit, {0x20000000 + i * 4096});
    cycles[n] = run.end()[Event::cycles];
    check_sums(*run.pipeline);
  }
  CHECK(cycles[1] * 4 < cycles[0]);
}

TEST_CASE("a prefetch is not waited for, and its line is there when it is wanted") {
  constexpr int kTurns = 50;
  const auto run = [](const std::vector<Line>& lines, bool prefetches) {
    Program program;
    const std::uint32_t exit = program.block(lines);
    Run run(program);
    for (std::uint64_t i = 0; i < kTurns; ++i) {
      const std::uint64_t line = 0x10000 + i * 64, ahead = 0x10000 + (i + 1) * 64;
      run.block(exit, prefetches ? std::vector{ahead, line} : std::vector{line});
    }
    EventCounts counts = run.end();
    check_sums(*run.pipeline);
    return counts;
  };
  // A load, and divisions that take longer than memory does and wait for what it gives.
  std::vector<Line> lines(10, kDivide);
  lines.insert(lines.begin(), kLoad);
  const EventCounts without = run(lines, false);
  lines.insert(lines.begin(), kPrefetch);
  const EventCounts with = run(lines, true);
  CHECK(without[Event::l1d_load_misses] == kTurns);
  CHECK(with[Event::l1d_load_misses] == 1);
  CHECK(with[Event::loads] == without[Event::loads]);
  CHECK(with[Event::prefetches] == kTurns);
  CHECK(with[Event::cycles] + (kTurns - 1) * 150 < without[Event::cycles]);
  // Nothing is gained where the line is wanted at once, and nothing is lost.
  const EventCounts alone = run({kLoad}, false), late = run({kPrefetch, kLoad}, true);
  CHECK(late[Event::cycles] <= alone[Event::cycles] + kTurns);
}

TEST_CASE("every line that a prefetcher brings takes its turn on the bus") {
  const auto transfers = [](std::uint32_t degree) {
    machine::MachineConfig config = small_machine();
    config.prefetchers = {{"next_line", 1, degree}};
    Program program;
    const std::uint32_t exit = program.block({kSum});
    Run run(program, {}, {}, config);
    run.block(exit, {0x10000});
    return run.end()[Event::bus_transfers];
  };
  CHECK(transfers(4) == transfers(1) + 3);
  CHECK(transfers(20) == transfers(1) + 19);
  CHECK(transfers(63) == transfers(1) + 62);  // a page
}

TEST_CASE("a line that the kernel clears does not keep the bus from the program") {
  machine::MachineConfig config = small_machine();
  config.mapping.cleared = true;
  Program program;
  const std::uint32_t exit = program.block({kSum});
  Run run(program, {}, {}, config), plain(program);
  for (Run* one : {&run, &plain}) one->block(exit, {0x10000});
  CHECK(run.end()[Event::bus_transfers] == plain.end()[Event::bus_transfers] - 1);
  CHECK(run.end()[Event::l1d_load_misses] == 0);
  CHECK(run.end()[Event::cycles] < plain.end()[Event::cycles]);
}

TEST_CASE("a loose reorder buffer is not filled by small bundles") {
  const auto cycles = [](bool loose) {
    Program program;
    const std::uint32_t first = program.block({kSum, kBranch}), skipped = program.block({kAdd});
    const std::uint32_t second = program.block({kSum, kBranch});
    (void)skipped;
    CoreConfig core;
    core.loose_rob = loose;
    core.misses = 64;
    core.loads = 200;
    core.rename = 400;
    for (std::uint32_t& queue : core.queues) queue = 200;
    PipelineOptions options;
    options.bus = 1;
    Run run(program, core, options);
    // Each jump ends a bundle of two or three operations where five would have room.
    for (std::uint64_t i = 0; i < 1000; ++i) {
      run.block(first, {0x1000'0000 + i * 128});
      run.block(second, {0x2000'0000 + i * 128});
    }
    const EventCounts& counts = run.end();
    check_sums(*run.pipeline);
    return counts[Event::cycles];
  };
  CHECK(cycles(true) < cycles(false) * 9 / 10);
}

TEST_CASE("prefetches take places among the outstanding misses") {
  const auto cycles = [](std::uint32_t misses) {
    Program program;
    const std::uint32_t exit = program.block({kPrefetch}), load = program.block({kSum});
    CoreConfig core;
    core.misses = misses;
    Run run(program, core);
    for (std::uint64_t i = 0; i < 20; ++i) run.block(exit, {0x10000 + i * 4096});
    run.block(load, {0x80000});
    return run.end()[Event::cycles];
  };
  CHECK(cycles(1) > 20 * 200);
  CHECK(cycles(32) < 20 * 200);
}

TEST_CASE("an ideal cause costs nothing") {
  Program program;
  const std::uint32_t exit = program.block({kLoad, kDivide});
  for (const Cause cause : {Cause::data_cache, Cause::iu, Cause::translation}) {
    PipelineOptions options;
    options.ideal = 1u << static_cast<unsigned>(cause);
    Run plain(program), ideal(program, {}, options);
    for (std::uint64_t i = 0; i < 500; ++i) {
      plain.block(exit, {0x20000000 + i * 4096});
      ideal.block(exit, {0x20000000 + i * 4096});
    }
    CHECK(ideal.end()[Event::cycles] <= plain.end()[Event::cycles]);
    const unsigned event =
        static_cast<unsigned>(Event::stall_data_cache) + static_cast<unsigned>(cause);
    if (cause != Cause::iu) CHECK(ideal.pipeline->counts().values[event] == 0);
    check_sums(*ideal.pipeline);
  }
}

TEST_CASE("cycles add up for any program, in every mode") {
  std::mt19937_64 random(5);
  const Line lines[] = {kAdd,
                        kOtherAdd,
                        kDivide,
                        kLoad,
                        kStore,
                        kSum,
                        kModify,
                        kFloat,
                        {{0x90}},
                        {{0x55}, {{SS_OP_KIND_STORE}}},  // push rbp
                        {{0x5d}, {{SS_OP_KIND_LOAD}}}};  // pop rbp
  for (int round = 0; round < 60; ++round) {
    Program program;
    CoreConfig core;
    core.bundle = 1 + random() % 8;
    core.rob = 1 + random() % 30;
    core.rename = 4 * core.bundle + random() % 40;
    core.loads = core.stores = core.store_buffer = core.bundle + random() % 20;
    for (unsigned i = 0; i < kUnits; ++i) {
      core.units[i] = 1 + random() % 4;
      core.queues[i] = core.bundle + random() % 20;
    }
    core.misses = 1 + random() % 12;
    core.reject = random() % 8;
    core.translation_rejects = random() % 2;
    core.follow_chain = random() % 2;
    core.wrong_paths = random() % 2;
    core.loose_rob = random() % 2;
    core.predictor = random() % 2 ? "tage" : "tournament";
    PipelineOptions options;
    options.mode = static_cast<Mode>(round % 3);
    options.slice = round % 2 ? 500 : 0;
    options.switch_cycles = round % 4 == 1 ? 50 : 0;
    Run run(program, core, options);
    std::vector<std::uint32_t> exits;
    for (int i = 0; i < 400; ++i) {
      if (exits.size() < 20) {
        std::vector<Line> chosen;
        for (unsigned k = 0; k < 1 + random() % 12; ++k) chosen.push_back(lines[random() % 11]);
        if (random() % 2) chosen.push_back(kBranch);
        exits.push_back(program.block(chosen));
        program.next += random() % 3 * 100;
      }
      const std::uint32_t exit = exits[random() % exits.size()];
      std::vector<std::uint64_t> addresses;
      for (std::uint32_t k = 0; k < program.code.exits[exit].operations; ++k)
        addresses.push_back(random() % 20 == 0
                                ? machine::kNoAddress
                                : 0x10000000 + random() % (1 << (8 + round % 16)) * 8);
      run.block(exit, addresses);
      if (random() % 50 == 0) run.pipeline->interrupt(1 + random() % 2);
    }
    const EventCounts& counts = run.end();
    std::uint64_t executed = 0;
    for (const std::uint64_t times : run.pipeline->executed()) executed += times;
    CHECK(counts[Event::instructions] == executed);
    check_sums(*run.pipeline);
  }
}

TEST_CASE("a core that cannot be is refused by name") {
  CoreConfig core;
  core.bundle = 0;
  CHECK(check_core(core).error().what == "core.bundle = 0 is wrong");
  core = {};
  core.queues[2] = 1;
  CHECK(check_core(core).error().what == "core.lsu_queue = 1 is wrong");
  core = {};
  core.predictor = "oracle";
  CHECK(check_core(core).error().what == "core.predictor = oracle is wrong");
}
