// SPDX-License-Identifier: Apache-2.0
// Loops of known access rate: each round reads so many cells of each table, three at random places
// and one in a circle. reuses [rounds]
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))
enum { SMALL = 1 << 14, MIDDLE = 1 << 17, LARGE = 1 << 20, CIRCLE = 1 << 18 };  // cells

uint64_t small[SMALL], middle[MIDDLE], large[LARGE], circle[CIRCLE];

static uint64_t step(uint64_t at) { return at * 6364136223846793005ull + 1442695040888963407ull; }

// The next place depends on what was read, so that every read is waited for; `zero` is none that
// the compiler knows of.
NOINLINE static uint64_t turn(uint64_t rounds, uint64_t zero) {
  uint64_t at = 1, on = 0;
  for (uint64_t i = 0; i < rounds; i++) {
    for (int n = 0; n < 4; n++) at = step(at) + small[(at >> 33) % SMALL];
    for (int n = 0; n < 2; n++) at = step(at) + middle[(at >> 33) % MIDDLE];
    at = step(at) + large[(at >> 33) % LARGE];
    on = circle[on + (at & zero)];
    at += on;
  }
  return at;
}

int main(int argc, char** argv) {
  const uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
  // One circle through all cells, in leaps that no prefetcher follows.
  for (uint64_t i = 0, on = 0; i < CIRCLE; i++) {
    const uint64_t next = (on * 1664525 + 1013904223) % CIRCLE;
    circle[on] = next;
    on = next;
  }
  for (uint64_t i = 0; i < LARGE; i++) small[i % SMALL] = middle[i % MIDDLE] = large[i] = i & 1;
  printf("reuses checksum=%llu\n", (unsigned long long)turn(rounds, argc > 64));
  return 0;
}
