// SPDX-License-Identifier: Apache-2.0
// C++ containers over the near allocator: what they hold is right, and list nodes share lines.
#include <cstdint>
#include <cstdio>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "stallscope_near.h"

template <typename T>
using Near = stallscope::near_allocator<T>;

struct alignas(64) Wide {
  char bytes[64];
};

static long shared_lines(const std::list<int, Near<int>>& list) {
  long shared = 0;
  std::uintptr_t last = 0;
  for (const int& value : list) {
    std::uintptr_t line = reinterpret_cast<std::uintptr_t>(&value) / 64;
    shared += line == last;
    last = line;
  }
  return shared;
}

int main() {
  std::list<int, Near<int>> list;
  for (int i = 0; i < 1000; i++) list.push_back(i);
  std::list<int, Near<int>> copy = list, moved = std::move(list);
  copy.splice(copy.begin(), moved);

  std::map<int, std::string, std::less<int>, Near<std::pair<const int, std::string>>> map;
  for (int i = 0; i < 1000; i++) map[i * 7 % 1000] = std::to_string(i);
  for (int i = 0; i < 500; i++) map.erase(i);

  std::vector<Wide, Near<Wide>> wide(10);
  bool aligned = reinterpret_cast<std::uintptr_t>(wide.data()) % 64 == 0;

  Near<int> first(&map), second;
  std::printf("list=%zu map=%zu aligned=%d equal=%d shared=%ld\n", copy.size(), map.size(), aligned,
              first == second, shared_lines(copy));
  return 0;
}
