// SPDX-License-Identifier: Apache-2.0
#include <doctest.h>

#include <algorithm>

#include "sources/hot_lines.h"

namespace stallscope::sources {
namespace {

constexpr std::uint64_t kData = 0x10000;

bool all(const std::vector<bool>& hot) {
  return std::all_of(hot.begin(), hot.end(), [](bool one) { return one; });
}
bool none(const std::vector<bool>& hot) {
  return std::none_of(hot.begin(), hot.end(), [](bool one) { return one; });
}

}  // namespace

TEST_CASE("a line that one place touches again and again is near") {
  CHECK(all(hot_lines(std::vector<Standing>(20, {1, 1, 0, kData}))));
  CHECK(hot_lines({}).empty());
}

TEST_CASE("lines that are hardly ever touched twice may be anywhere") {
  std::vector<Standing> touches;
  for (std::uint64_t i = 0; i < 200; ++i) touches.push_back({1, 1, 0, kData + i * 64});
  CHECK(none(hot_lines(touches)));
  touches.resize(3);  // too few to say
  CHECK(none(hot_lines(touches)));
}

TEST_CASE("a line that threads of two processors touch goes to and fro") {
  std::vector<Standing> touches;
  for (int i = 0; i < 20; ++i) {
    touches.push_back({1, 1, 0, kData});
    touches.push_back({1, 2, 1, kData + 8});
  }
  CHECK(none(hot_lines(touches)));
  for (Standing& touch : touches) touch.cpu = 0;  // they take turns on one
  CHECK(all(hot_lines(touches)));
}

TEST_CASE("a thread that moves to another processor takes its lines along") {
  std::vector<Standing> touches(20, {1, 1, 0, kData});
  for (std::size_t i = 10; i < 20; ++i) touches[i].cpu = 1;
  CHECK(all(hot_lines(touches)));
}

}  // namespace stallscope::sources
