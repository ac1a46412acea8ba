// SPDX-License-Identifier: Apache-2.0
// heapmap.c for C++: distances between blocks from new, new[], aligned and nothrow new.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <new>

namespace {

struct alignas(64) Line {
  char bytes[192];
};
struct Small {
  std::uint64_t words[3];
  ~Small() { words[0] = 0; }
};

std::uintptr_t last = 0;

template <typename T>
T* show(const char* form, T* block) {
  const auto here = reinterpret_cast<std::uintptr_t>(block);
  if (last != 0) std::printf("%s %td\n", form, static_cast<std::ptrdiff_t>(here - last));
  last = here;
  return block;
}

}  // namespace

int main() {
  for (int i = 1; i <= 20; i++) {
    auto* one = show("new", new Small{});
    auto* many = show("new[]", new int[static_cast<std::size_t>(i) * 17]);
    auto* objects = show("new[] with count", new Small[static_cast<std::size_t>(i)]);
    auto* aligned = show("aligned new", new Line);
    auto* lines = show("aligned new[]", new Line[2]);
    auto* nothrow = show("nothrow new", new (std::nothrow) double);
    if (i % 3 == 0) delete one;
    delete[] many;
    if (i % 2 == 0) delete[] objects;
    delete aligned;
    if (i % 4 == 0) delete[] lines;
    delete nothrow;
  }
  return 0;
}
