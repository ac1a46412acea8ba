// SPDX-License-Identifier: Apache-2.0
// Waits for memory in loops of different shapes, each over one object, for given shares of the
// time: waits [milliseconds] [share of chase, scatter, follow, update, compute in per cent]...
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))
enum { CELLS = 6 << 20 };  // of eight bytes: more than the caches hold

static uint64_t chain[CELLS];   // chased: each cell holds the number of the next
static uint64_t table[CELLS];   // read at random
static uint64_t counts[CELLS];  // updated at random
static void** links;            // followed: each cell holds the address of the next; a mapping

static uint64_t state = 88172645463325252ull;
static uint64_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

NOINLINE static uint64_t chase(uint64_t at, uint64_t steps) {
  for (uint64_t i = 0; i < steps; i++) at = chain[at];
  return at;
}

NOINLINE static uint64_t scatter(uint64_t at, uint64_t steps) {
  for (uint64_t i = 0; i < steps; i++) {
    at = at * 6364136223846793005ull + 1442695040888963407ull;
    at += table[(at >> 33) % CELLS];  // the next place depends on what was read
  }
  return at;
}

NOINLINE static void** follow(void** at, uint64_t steps) {
  for (uint64_t i = 0; i < steps; i++) at = (void**)*at;
  return at;
}

NOINLINE static uint64_t update(uint64_t at, uint64_t steps) {
  for (uint64_t i = 0; i < steps; i++) {
    at = at * 6364136223846793005ull + 1442695040888963407ull;
    uint64_t* cell = &counts[(at >> 33) % CELLS];
    *cell += i;
    at += *cell;
  }
  return at;
}

NOINLINE static uint64_t compute(uint64_t at, uint64_t steps) {
  for (uint64_t i = 0; i < steps; i++) at = (at ^ i) * 6364136223846793005ull + (at >> 7);
  return at;
}

static void make_chains(void) {
  links =
      mmap(NULL, CELLS * sizeof *links, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (links == MAP_FAILED) exit(3);
  for (uint64_t i = 0; i < CELLS; i++) chain[i] = i;
  for (uint64_t i = CELLS - 1; i > 0; i--) {  // one cycle through all cells
    uint64_t j = next_random() % i, held = chain[i];
    chain[i] = chain[j];
    chain[j] = held;
  }
  for (uint64_t i = 0; i < CELLS; i++) links[i] = &links[chain[i]];
  for (uint64_t i = 0; i < CELLS; i++) table[i] = next_random();
  memset(counts, 1, sizeof counts);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char** argv) {
  double seconds = (argc > 1 ? atof(argv[1]) : 1000) / 1000, shares[5] = {25, 25, 25, 25, 0};
  for (int i = 0; i < 5 && i + 2 < argc; i++) shares[i] = atof(argv[i + 2]);
  make_chains();
  uint64_t a = 1, b = 1, c = 1, d = 1;
  void** p = links;
  double used[5] = {0}, whole = 0, began = now();
  while (whole < seconds) {  // whichever is furthest behind its share goes on
    int next = 0;
    for (int i = 1; i < 5; i++)
      if (shares[i] * whole - 100 * used[i] > shares[next] * whole - 100 * used[next]) next = i;
    if (whole == 0)
      for (next = 0; shares[next] == 0;) next++;
    if (next == 0) a = chase(a, 4000);
    if (next == 1) b = scatter(b, 4000);
    if (next == 2) p = follow(p, 4000);
    if (next == 3) c = update(c, 4000);
    if (next == 4) d = compute(d, 100000);
    double then = now();
    used[next] += then - began - whole;
    whole = then - began;
  }
  printf("%d %.4f %.4f %.4f %.4f %.4f\n", (int)((a + b + c + d) & 1) + (p == NULL), used[0] / whole,
         used[1] / whole, used[2] / whole, used[3] / whole, used[4] / whole);
  return 0;
}
