// SPDX-License-Identifier: Apache-2.0
// Prefetches in replay, on loops whose misses are known.
#include <doctest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "machine_words.h"
#include "session/ahead.h"
#include "stream_memory.h"
#include "stream_words.h"

using namespace stallscope;
using namespace stallscope::stream;
using machine::MachineConfig;
using session::AheadCounts;
using session::AheadOptions;
using session::AheadSlice;

namespace {

constexpr std::uint64_t kTurns = 2000, kFar = 1 << 20;
constexpr std::uint64_t kIndex = 0x400000, kPick = 0x400001;  // the loads of the loop's block

// for i: index[i], 4 bytes each, then picked[i] on a line of its own; and a store of each.
struct Trace {
  Trace() {
    words::Stream stream;
    const std::uint32_t loop = stream.block({words::load, words::load, words::store}, 8);
    const std::uint32_t after = stream.block({}, 4);
    for (std::uint64_t i = 0; i < kTurns; ++i)
      stream.run(loop, {kFar + 4 * i, 2 * kFar + 64 * (i * 7919 % kTurns), 64});
    stream.run(after, {});
    const Bytes bytes = trace_of(stream.words);
    char name[] = "/tmp/stallscope-ahead-XXXXXX";
    const int file = mkstemp(name);
    REQUIRE(file >= 0);
    REQUIRE(write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    close(file);
    path = name;
  }
  ~Trace() { std::remove(path.c_str()); }

  AheadCounts with(const AheadOptions& options) const {
    MachineConfig config;
    config.caches = {machine::words::cache("L1", 8, 8), machine::words::cache("L2", 64, 64)};
    config.caches[0].latency = 4;
    config.caches[1].latency = 14;
    config.memory_latency = 200;
    auto counts = session::run_ahead(path, config, options);
    REQUIRE(counts);
    return *counts;
  }

  std::string path;
};

AheadSlice slice(std::uint32_t distance) {
  AheadSlice made;
  made.load = kIndex;
  made.steps = {kIndex, kPick};
  made.loads = {kPick};
  made.cost = 4;
  made.distance = distance;
  if (distance) made.step = 4;
  return made;
}

AheadOptions one(const AheadSlice& what) {
  AheadOptions options;
  options.slices = {what};
  return options;
}

constexpr std::uint64_t kLines = kTurns + kTurns * 4 / 64 + 1;  // picked, index, and the store's

}  // namespace

TEST_CASE("without slices every line misses once") {
  const Trace trace;
  const AheadCounts counts = trace.with({});
  CHECK(counts.accesses == 3 * kTurns);
  CHECK(counts.misses == kLines);
  CHECK(counts.prefetches == 0);
}

TEST_CASE("inline prefetches bring all but the first lines") {
  const Trace trace;
  const AheadCounts counts = trace.with(one(slice(16)));
  CHECK(counts.misses == kLines - (kTurns - 16));
  CHECK(counts.used == kTurns - 16);
  CHECK(counts.runs == kTurns);
  CHECK(counts.cycles < trace.with({}).cycles);
  CHECK(trace.with(one(slice(1))).in_flight > kTurns / 4);  // they come too late
  CHECK(trace.with(one(slice(100))).in_flight == 0);
}

TEST_CASE("a load that is told later is brought later") {
  const Trace trace;
  AheadSlice staged = slice(8);
  staged.times = {3};
  CHECK(trace.with(one(staged)).misses == kLines - (kTurns - 24));
  staged.loads = {kIndex, kPick};
  staged.times = {2, 1};
  const AheadCounts counts = trace.with(one(staged));
  // Of the index only the first line misses: from 16 entries on it is told.
  CHECK(counts.misses == 1 + 1 + 8);
}

TEST_CASE("the control costs as much and brings nothing") {
  const Trace trace;
  AheadOptions options = one(slice(16));
  options.prefetch = false;
  const AheadCounts counts = trace.with(options);
  CHECK(counts.misses == kLines);
  CHECK(counts.prefetches == 0);
  CHECK(counts.cycles > trace.with({}).cycles);
}

TEST_CASE("an assist thread runs ahead, waits and stops where the trace is left") {
  const Trace trace;
  AheadSlice beside = slice(0);
  beside.feeding = {kIndex};
  AheadOptions options = one(beside);
  options.chunk = 16;
  const AheadCounts counts = trace.with(options);
  CHECK(counts.visits == 1);
  CHECK(counts.pauses > 0);
  CHECK(counts.misses < kLines / 10);
  // So far behind that it never catches up, it starts again.
  beside.cost = 5000;
  CHECK(trace.with(one(beside)).misses > kLines * 8 / 10);
}

TEST_CASE("what makes no sense is an error") {
  const Trace trace;
  AheadOptions options;
  options.chunk = 0;
  const MachineConfig none;
  CHECK_FALSE(session::run_ahead(trace.path, none, options));
  CHECK_FALSE(session::run_ahead("/no/such/trace", none, {}));
}

TEST_CASE("stores that feed loads of the trace are found") {
  const Trace trace;
  auto flows = session::flows_of(trace.path, {kIndex, kPick});
  REQUIRE(flows);
  CHECK(flows->empty());  // nobody reads what the loop stores
  CHECK_FALSE(session::flows_of("/no/such/trace", {}));
}
