// SPDX-License-Identifier: Apache-2.0
// Blocks and variables in another layout.
#include <doctest.h>

#include <vector>

#include "session/reshape.h"
#include "stallscope_records.h"

using namespace stallscope;
using namespace stallscope::session;

namespace {

using Words = std::vector<std::uint64_t>;

void tell(Reshape& reshape, const Words& words) {
  reshape.on_record(SS_HEAD_TAG(words[0]), words.data(), static_cast<std::uint32_t>(words.size()));
}
Words alloc(std::uint64_t address, std::uint64_t size, std::uint64_t site) {
  return {SS_HEAD(SS_ALLOC, 7, 1), 0, address, size, site, SS_ALLOC_KIND_MALLOC, 0};
}
Words freed(std::uint64_t address) { return {SS_HEAD(SS_FREE, 3, 1), 0, address}; }

Reshape made(const Shape& shape) {
  auto reshape = Reshape::make({shape});
  REQUIRE(reshape);
  return std::move(*reshape);
}

}  // namespace

TEST_CASE("a variable's fields get arrays of their own") {
  Reshape reshape =
      made({{}, 0x1000, 64, 16, {{0x9000, 8}, {0xa000, 8}}, {{0, 8, 0, 0}, {8, 8, 1, 0}}});
  CHECK(reshape.moved(0xfff) == 0xfff);
  CHECK(reshape.moved(0x1000) == 0x9000);
  CHECK(reshape.moved(0x1008) == 0xa000);
  CHECK(reshape.moved(0x1014) == 0x900c);
  CHECK(reshape.moved(0x103c) == 0xa01c);
  CHECK(reshape.moved(0x1040) == 0x1040);
}

TEST_CASE("fields change places where the block lies") {
  Reshape reshape = made({{7}, 0, 0, 24, {{0, 24}}, {{16, 8, 0, 0}, {0, 8, 0, 8}, {8, 8, 0, 16}}});
  CHECK(reshape.moved(0x2000) == 0x2000);  // not allocated yet
  tell(reshape, alloc(0x2000, 48, 7));
  CHECK(reshape.moved(0x2000) == 0x2008);
  CHECK(reshape.moved(0x2010) == 0x2000);
  CHECK(reshape.moved(0x2018 + 16) == 0x2018);
  tell(reshape, freed(0x2000));
  CHECK(reshape.moved(0x2000) == 0x2000);
}

TEST_CASE("blocks of several sites lie side by side, and take the places of freed ones") {
  Reshape reshape = made({{1, 2}, 0, 0, 16, {{0x9000, 16}}, {}});
  tell(reshape, alloc(0x5000, 16, 1));
  tell(reshape, alloc(0x7000, 16, 2));
  tell(reshape, alloc(0x8000, 16, 3));
  CHECK(reshape.moved(0x5008) == 0x9008);
  CHECK(reshape.moved(0x7000) == 0x9010);
  CHECK(reshape.moved(0x8000) == 0x8000);
  tell(reshape, freed(0x5000));
  tell(reshape, alloc(0x6000, 16, 2));
  CHECK(reshape.moved(0x6004) == 0x9004);
}

TEST_CASE("shapes that cannot be are refused") {
  CHECK(!Reshape::make({{{1}, 0, 0, 0, {{0, 8}}, {}}}));
  CHECK(!Reshape::make({{{1}, 0, 0, 8, {}, {}}}));
  CHECK(!Reshape::make({{{1}, 0, 0, 8, {{0, 8}}, {{4, 8, 0, 0}}}}));
  CHECK(!Reshape::make({{{1}, 0, 0, 8, {{0, 8}}, {{0, 8, 1, 0}}}}));
}
