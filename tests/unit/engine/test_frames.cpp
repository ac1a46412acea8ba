// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include "probes/buckets.h"
#include "probes/frames.h"

using namespace stallscope;
using namespace stallscope::probes;

TEST_CASE("an address lies in the frame whose return address is next above it") {
  Frames frames;
  frames.run(1);
  frames.call(0x9000);
  frames.at(10);
  frames.at(11);
  frames.call(0x8000);
  frames.at(20);
  CHECK(frames.find(0x8fff) == 10);
  CHECK(frames.find(0x8001) == 10);
  CHECK(frames.find(0x8000) == 20);
  CHECK(frames.find(0x7000) == 20);
  CHECK(frames.find(0x9001) == kNone32);
  frames.leave(0x8000);
  CHECK(frames.find(0x7000) == 10);
  frames.call(0x8100);
  CHECK(frames.find(0x8000) == kNone32);  // it has accessed nothing yet
  frames.at(30);
  CHECK(frames.find(0x8000) == 30);
  frames.leave(0x9000);
  CHECK(frames.find(0x8000) == kNone32);
}

TEST_CASE("frames that were left without a return end with the next call above them") {
  Frames frames;
  frames.run(1);
  frames.call(0x9000);
  frames.at(1);
  for (std::uint64_t top = 0x8f00; top > 0x8000; top -= 0x100) {
    frames.call(top);
    frames.at(2);
  }
  frames.call(0x8f80);  // longjmp went back to the first
  frames.at(3);
  CHECK(frames.find(0x8f81) == 1);
  CHECK(frames.find(0x8100) == 3);
}

TEST_CASE("each thread has a stack, also for others that look into it") {
  Frames frames;
  frames.run(1);
  frames.call(0x900000);
  frames.at(1);
  frames.run(2);
  frames.call(0x500000);
  frames.at(2);
  CHECK(frames.find(0x4fff00) == 2);
  CHECK(frames.find(0x8fff00) == 1);
  frames.exit(1);
  CHECK(frames.find(0x8fff00) == kNone32);
  frames.exit(2);
  CHECK(frames.find(0x4fff00) == kNone32);
}

TEST_CASE("a stack grows to where it is used, but not over or past something else") {
  Buckets buckets;
  buckets.map("stack", "", 0x100000, 0x2000);
  buckets.map("mapping", "m", 0xe0000, 0x1000);
  const BucketId stack = buckets.find(0x100000);
  CHECK(buckets.find(0xf8123) == stack);
  CHECK(buckets.find(0xf8000) == stack);
  BucketTable table;
  buckets.fill(table);
  CHECK(table.bytes[stack] == 0x2000 + 0x8000);
  CHECK(buckets.find(0xd0000) == Buckets::kUnknown);  // behind a mapping
  CHECK(buckets.find(0xf7fff) == Buckets::kUnknown);  // so this was no stack that grows
  buckets.map("stack", "", 0x40000000, 0x1000);
  CHECK(buckets.find(0x30000000) == Buckets::kUnknown);  // too far away
  buckets.unmap(0x40000000, 0x1000);
  CHECK(buckets.find(0x3ffff000) == Buckets::kUnknown);  // it is gone
}

TEST_CASE("only stacks are told apart by frames") {
  Frames frames;
  frames.run(1);
  frames.call(0x20000);
  frames.at(7);
  Buckets buckets;
  buckets.map("mapping", "m", 0x1000, 0x1000);
  buckets.map("stack", "", 0x10000, 0x10001);
  const BucketId whole = buckets.find(0x10100);
  buckets.follow(&frames);
  const BucketId frame = buckets.find(0x10100);
  CHECK(frame != whole);
  CHECK(buckets.find(0x1fff0) == frame);
  BucketTable table;
  buckets.fill(table);
  CHECK(table.kind[frame] == "stack");
  CHECK(table.operation[frame] == 7);
  CHECK(table.operation[whole] == kNone32);
  CHECK(table.name[buckets.find(0x1800)] == "m");
  frames.leave(0x20000);
  CHECK(buckets.find(0x10100) == whole);
}
