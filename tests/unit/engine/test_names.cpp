// SPDX-License-Identifier: Apache-2.0
// Names that a program gives to memory end with the memory, in the object table and for misses.
#include <doctest.h>

#include <string>
#include <vector>

#include "probes/buckets.h"
#include "stream/record.h"
#include "target/target.h"

using namespace stallscope;
using probes::BucketId;
using probes::Buckets;

namespace {

std::string name_at(Buckets& buckets, std::uint64_t address) {
  BucketTable table;
  buckets.fill(table);
  return std::string(table.name[buckets.find(address)]);
}

std::string line_at(Buckets& buckets, std::uint64_t line) {
  BucketTable table;
  buckets.fill(table);
  return std::string(table.name[buckets.find_line(line, 64)]);
}

struct Story {
  target::Target target;
  std::uint64_t when = 0;

  void tell(unsigned tag, std::initializer_list<std::uint64_t> fields, std::string_view tail = "") {
    std::vector<std::uint64_t> words;
    stream::append_record(words, tag, 1, ++when, fields, tail);
    REQUIRE(target.on_record(tag, words.data(), static_cast<std::uint32_t>(words.size())));
  }
  void allocate(std::uint64_t address, std::uint64_t size, std::uint64_t old = 0) {
    tell(SS_ALLOC, {address, size, 0, 0, old});
  }
  // When each named row died, by name; kNever for those that live.
  std::vector<std::pair<std::string, std::uint64_t>> deaths() {
    ObjectTable rows = target.objects;
    target.names.fill_live(rows);
    std::vector<std::pair<std::string, std::uint64_t>> found;
    for (std::size_t i = 0; i < rows.rows(); ++i)
      if (rows.kind[i] == "named") found.emplace_back(rows.name[i], rows.died[i]);
    return found;
  }
};

}  // namespace

TEST_CASE("misses on a freed block that had a name are no longer the name's") {
  Buckets buckets;
  buckets.map("mapping", "[heap]", 0x10000, 0x10000);
  buckets.allocate(0x10100, 0x200, 3);
  buckets.give_name("whole", 0x10100, 0x200);
  buckets.give_name("part", 0x10180, 0x40);
  CHECK(name_at(buckets, 0x10100) == "whole");
  CHECK(name_at(buckets, 0x10180) == "part");
  buckets.release(0x10100);
  CHECK(name_at(buckets, 0x10100) == "[heap]");
  CHECK(name_at(buckets, 0x10180) == "[heap]");
  buckets.allocate(0x10100, 0x100, 4);
  CHECK(name_at(buckets, 0x10100) == "");  // the new block's, which has no name
}

TEST_CASE("a name that is larger than a block in it outlives the block") {
  Buckets buckets;
  buckets.map("mapping", "arena", 0x10000, 0x10000);
  buckets.give_name("pool", 0x10000, 0x1000);
  buckets.allocate(0x10100, 64, 1);
  buckets.release(0x10100);
  CHECK(name_at(buckets, 0x10100) == "pool");
  buckets.unmap(0x10000, 0x10000);
  CHECK(name_at(buckets, 0x10100) == "<unknown>");
}

TEST_CASE("a block that realloc could not move keeps its name") {
  Buckets buckets;
  buckets.allocate(0x10100, 64, 1);
  buckets.give_name("kept", 0x10100, 64);
  buckets.release(0x10100);
  buckets.revive(0x10100);
  CHECK(name_at(buckets, 0x10100) == "kept");
  buckets.release(0x10100);
  CHECK(name_at(buckets, 0x10100) == "<unknown>");
}

TEST_CASE("a line belongs to the name that holds most of it, not to the block below") {
  Buckets buckets;
  buckets.map("mapping", "[heap]", 0x10000, 0x10000);
  buckets.allocate(0x10000, 0x100, 1);
  buckets.give_name("second half", 0x10090, 0x70);
  CHECK(line_at(buckets, 0x10040) == "");
  CHECK(line_at(buckets, 0x10080) == "second half");
  CHECK(line_at(buckets, 0x100c0) == "second half");
  CHECK(line_at(buckets, 0x10140) == "[heap]");
}

TEST_CASE("the pieces of a range are those that each of its bytes is found in") {
  Buckets buckets;
  buckets.map("mapping", "m", 0x10000, 0x3000);
  buckets.allocate(0x10f00, 0x300, 1);
  buckets.name("global", "g", "", 0x11800, 0x20);
  buckets.give_name("n", 0x11000, 0x40);
  const std::uint64_t start = 0xff00, size = 0x4000;
  std::vector<BucketId> pieces;
  buckets.split(start, size, [&](BucketId bucket, std::uint64_t bytes) {
    pieces.insert(pieces.end(), bytes, bucket);
  });
  REQUIRE(pieces.size() == size);
  for (std::uint64_t i = 0; i < size; ++i) REQUIRE(pieces[i] == buckets.find(start + i));
}

TEST_CASE("in the object table a name ends when its heap block does") {
  Story story;
  story.allocate(0x1000, 0x100);
  story.tell(SS_NAME_BLOCK, {0x1000, 0x100}, "block");
  story.tell(SS_NAME_BLOCK, {0x1040, 0x20}, "part");
  story.tell(SS_NAME_BLOCK, {0x10c0, 0x100}, "reaches out");
  story.tell(SS_FREE, {0x1000});
  CHECK(story.deaths() == std::vector<std::pair<std::string, std::uint64_t>>{
                              {"block", 5}, {"part", 5}, {"reaches out", kNever}});
}

TEST_CASE("memory that is named again has both names one after the other") {
  Story story;
  story.tell(SS_NAME_BLOCK, {0x1000, 0x100}, "first");
  story.tell(SS_NAME_BLOCK, {0x1000, 0x80}, "second");
  CHECK(story.deaths() ==
        std::vector<std::pair<std::string, std::uint64_t>>{{"first", 2}, {"second", kNever}});
}

TEST_CASE("a failed realloc leaves the name, as a second row") {
  Story story;
  story.allocate(0x1000, 0x100);
  story.tell(SS_NAME_BLOCK, {0x1000, 0x100}, "block");
  story.tell(SS_FREE, {0x1000});
  story.allocate(0, 0, 0x1000);
  CHECK(story.deaths() ==
        std::vector<std::pair<std::string, std::uint64_t>>{{"block", 3}, {"block", kNever}});
}

TEST_CASE("a forked child knows the names and regions that its parent had") {
  Story parent;
  parent.tell(SS_THREAD_START, {0, 77, 0x7000});
  parent.tell(SS_NAME_BLOCK, {0x1000, 0x100}, "inherited");
  parent.tell(SS_MARK, {SS_MARK_KIND_REGION_BEGIN}, "outer");
  parent.tell(SS_MARK, {SS_MARK_KIND_REGION_BEGIN}, "inner");
  parent.tell(SS_MARK, {SS_MARK_KIND_REGION_END}, "inner");
  const std::vector<std::uint64_t> words = parent.target.inheritance(1);
  target::Target child;
  std::vector<std::string> begun;
  for (std::size_t at = 0; at < words.size(); at += SS_HEAD_WORDS(words[at])) {
    const unsigned tag = SS_HEAD_TAG(words[at]);
    REQUIRE(child.on_record(tag, &words[at], SS_HEAD_WORDS(words[at])));
  }
  for (std::size_t i = 0; i < child.events.rows(); ++i)
    if (child.events.kind[i] == "region_begin") begun.emplace_back(child.events.text[i]);
  CHECK(begun == std::vector<std::string>{"outer"});
  ObjectTable rows;
  child.names.fill_live(rows);
  REQUIRE(rows.rows() == 1);
  CHECK(rows.name[0] == "inherited");
}
