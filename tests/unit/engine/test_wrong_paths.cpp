// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include <random>

#include "pipeline/meetings.h"
#include "pipeline_words.h"

using namespace stallscope;
using namespace stallscope::pipeline;
using namespace stallscope::pipeline::words;

namespace {

const Line kFar{{0x48, 0x8b, 0x16}, {{SS_OP_KIND_LOAD}}};  // mov rdx, [rsi]
const Line kMoveFar{{0x48, 0x01, 0xde}};                   // add rsi, rbx
const Line kMoveNear{{0x48, 0x01, 0xcb}};                  // add rbx, rcx
const Line kReturn{{0xc3}};

// if (*near) body; *far; again and again, with *near and *far always missing.
struct Turns {
  Program program;
  std::uint32_t test, body, rest;

  explicit Turns(const std::vector<Line>& lines) {
    test = program.block({kSum, kBranch});
    body = program.block(lines);
    rest = program.block({kFar});
  }
  EventCounts run(bool wrong_paths, unsigned seed) {
    CoreConfig core;
    core.wrong_paths = wrong_paths;
    Run run(program, core);
    std::mt19937 random(seed);
    for (std::uint64_t i = 0; i < 2000; ++i) {
      run.block(test, {0x1000'0000 + i * 8192});
      if (random() % 2) run.block(body);
      run.block(rest, {0x8000'0000 + i * 8192});
    }
    const EventCounts counts = run.end();
    check_sums(*run.pipeline);
    return counts;
  }
};

}  // namespace

TEST_CASE("the ways behind a branch meet where both lead to") {
  Turns turns({kOtherAdd});
  const Lowered lowered = [&] {
    Lowered made(turns.program.code, {}, 0, 6);
    made.learn();
    return made;
  }();
  Meetings meetings(lowered);
  const CoreInstruction& branch = lowered.instructions[1];
  CHECK(meetings.of(branch).address == 0);  // where it branches to is not known
  const std::uint64_t rest = turns.program.code.blocks[2].address;
  meetings.went(branch, rest);
  CHECK(meetings.of(branch).address == rest);
  CHECK((meetings.of(branch).changed >> (code::kFirstGeneral + 1) & 1));        // rcx
  CHECK_FALSE((meetings.of(branch).changed >> (code::kFirstGeneral + 6) & 1));  // rsi
}

TEST_CASE("a way that returns meets nobody") {
  Turns turns({kReturn});
  Lowered lowered(turns.program.code, {}, 0, 6);
  lowered.learn();
  Meetings meetings(lowered);
  meetings.went(lowered.instructions[1], turns.program.code.blocks[2].address);
  CHECK(meetings.of(lowered.instructions[1]).address == 0);
}

TEST_CASE("a way that calls comes back, with what calls may change") {
  Turns turns({{{0xe8, 0, 0x10, 0, 0}}});  // call
  Lowered lowered(turns.program.code, {}, 0, 6);
  lowered.learn();
  Meetings meetings(lowered);
  const std::uint64_t rest = turns.program.code.blocks[2].address;
  meetings.went(lowered.instructions[1], rest);
  const Meeting& found = meetings.of(lowered.instructions[1]);
  CHECK(found.address == rest);
  const auto changes = [&](unsigned general) {
    return found.changed >> (code::kFirstGeneral + general) & 1;
  };
  CHECK(changes(0));        // rax
  CHECK(changes(6));        // rsi
  CHECK_FALSE(changes(3));  // rbx
  CHECK_FALSE(changes(5));  // rbp
  CHECK_FALSE(changes(12));
  CHECK(changes(11));
}

TEST_CASE("loads behind the meeting of a mispredicted branch are early") {
  Turns turns({kOtherAdd});
  const EventCounts without = turns.run(false, 1), with = turns.run(true, 1);
  CHECK(with[Event::mispredicts] > 500);
  CHECK(with[Event::mispredicts] == without[Event::mispredicts]);
  CHECK(with[Event::l1d_load_misses] == without[Event::l1d_load_misses]);
  // *far is asked for while *near is waited for, which takes as long.
  CHECK(without[Event::cycles] > with[Event::cycles] + with[Event::mispredicts] * 150);
}

TEST_CASE("loads whose addresses depend on the way are not early") {
  Turns turns({kMoveFar, kMoveNear});
  CHECK(turns.run(false, 2)[Event::cycles] == turns.run(true, 2)[Event::cycles]);
}

TEST_CASE("where branches are predicted, there are no wrong paths") {
  Turns turns({kOtherAdd});
  CoreConfig core;
  core.wrong_paths = true;
  Run with(turns.program, core), without(turns.program);
  for (Run* run : {&with, &without})
    for (std::uint64_t i = 0; i < 2000; ++i) {
      run->block(turns.test, {0x1000'0000 + i * 8192});
      run->block(turns.rest, {0x8000'0000 + i * 8192});
    }
  const EventCounts& counts = with.end();
  CHECK(counts[Event::mispredicts] <= 2);
  CHECK(counts[Event::cycles] <= without.end()[Event::cycles]);
  CHECK(counts[Event::cycles] + 1000 > without.end()[Event::cycles]);
}
