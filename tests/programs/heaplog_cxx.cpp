// SPDX-License-Identifier: Apache-2.0
// As heaplog.c, with every form of operator new. Ends when standard input does.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <string>
#include <vector>

#define NOINLINE __attribute__((noinline, noclone))

struct alignas(128) Wide {
  char bytes[256];
};

NOINLINE static void say(const char* function, void* block, std::size_t size) {
  std::printf("%s %p %zu\n", function, block, size);
}

NOINLINE static void by_new(std::size_t size) { say("by_new", ::operator new(size), size); }
NOINLINE static void by_array(std::size_t size) { say("by_array", new char[size], size); }
NOINLINE static void by_nothrow(std::size_t size) {
  say("by_nothrow", new (std::nothrow) char[size], size);
}
NOINLINE static void by_aligned() { say("by_aligned", new Wide, sizeof(Wide)); }
NOINLINE static void by_aligned_array() { say("by_aligned_array", new Wide[3], 3 * sizeof(Wide)); }
NOINLINE static void by_large_array() { say("by_large_array", new char[100000], 100000); }

NOINLINE static int thrown() {
  try {
    char* block = new char[static_cast<std::size_t>(-1) / 4];
    std::printf("%p\n", static_cast<void*>(block));
  } catch (const std::bad_alloc&) {
    return 1;
  }
  return 0;
}

int main() {
  for (std::size_t size = 17; size < 2000; size += 1 + size / 2) {
    by_new(size);
    by_array(size);
    by_nothrow(size);
  }
  by_aligned();
  by_aligned_array();
  by_large_array();
  for (int i = 0; i < 100; i++) {
    std::map<int, std::string> names;
    for (int k = 0; k < 20; k++) names[k] = std::string(40, 'x');
    delete new int(i);
    delete new Wide;
    delete[] new Wide[2];
  }
  std::printf("thrown %d\nready\n", thrown());
  std::fflush(stdout);
  return std::getchar() == EOF ? 3 : 0;
}
