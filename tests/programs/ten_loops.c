// SPDX-License-Identifier: Apache-2.0
// Ten loops whose trip counts, strides and branches can be told by hand; test_loops.py does.
#include <stdint.h>
#include <stdio.h>

#define NOINLINE __attribute__((noinline))
#define ROWS 64

static volatile int64_t numbers[1000];
static volatile int32_t small[4096];
static volatile double square[ROWS][ROWS];
static volatile struct { int64_t key, count, more; } records[200];

NOINLINE static void up(void) {  // 1000 iterations, 8 bytes apart
  for (int i = 0; i < 1000; i++) numbers[i] = i;
}
NOINLINE static void down(void) {  // 500 iterations, 8 bytes apart, backwards
  for (int i = 499; i >= 0; i--) numbers[i] = i;
}
NOINLINE static void sparse(void) {  // 128 iterations, 128 bytes apart
  for (int i = 0; i < 4096; i += 32) small[i] = i;
}
NOINLINE static void fields(void) {  // 200 iterations, 24 bytes apart, reads and writes
  for (int i = 0; i < 200; i++) records[i].count++;
}
NOINLINE static void short_loop(int times) {  // as often as told
  for (int i = 0; i < times; i++) numbers[i] = 0;
}
NOINLINE static void rows(void) {  // 64 entries of 64, 8 bytes apart
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < ROWS; j++) square[i][j] = 1;
}
NOINLINE static void columns(void) {  // 64 entries of 64, 512 bytes apart
  for (int j = 0; j < ROWS; j++)
    for (int i = 0; i < ROWS; i++) square[i][j] = 2;
}
NOINLINE static void third(void) {  // 900 iterations, a branch that is taken every third time
  for (int i = 0; i < 900; i++)
    if (i % 3 == 0) numbers[i] = 1;
}
NOINLINE static int64_t once(int64_t value) { return numbers[value & 7]; }
NOINLINE static int64_t calling(void) {  // 50 iterations, 50 calls
  int64_t sum = 0;
  for (int i = 0; i < 50; i++) sum += once(i);
  return sum;
}
NOINLINE static uint64_t euclid(uint64_t a, uint64_t b) {  // 13 iterations from 610 and 377
  while (b != 0) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

int main(void) {
  up();
  down();
  sparse();
  fields();
  for (int times = 1; times <= 5; times++) short_loop(times);
  rows();
  columns();
  third();
  printf("%lld %d\n", (long long)calling(), (int)euclid(610, 377));
  return 0;
}
