// SPDX-License-Identifier: Apache-2.0
// Large heap arrays that are swept at once. malloc begins all of them at the same place of a page,
// so that they share a set of the cache at any time; after: each begins some lines further.
#include "pair.h"

enum { ARRAYS = 12, ELEMENTS = 20000, SWEEPS = 3, APART = 5 * 64, PAGE = 4096 };

static int after;

// One place in the program for each, as programs have it.
#define ARRAY(number) \
  (uint64_t*)((char*)malloc(ELEMENTS * 8 + PAGE) + (after ? (number)*APART % PAGE : 0))

NOINLINE static void sweep(uint64_t** a) {
  for (int i = 0; i < ELEMENTS; i++) {
    a[0][i] += a[1][i] + a[2][i] + a[3][i] + a[4][i] + a[5][i];
    a[6][i] += a[7][i] + a[8][i] + a[9][i] + a[10][i] + a[11][i];
  }
}

int main(int argc, char** argv) {
  after = is_after(argc, argv);
  uint64_t* a[ARRAYS];
  a[0] = ARRAY(0);
  a[1] = ARRAY(1);
  a[2] = ARRAY(2);
  a[3] = ARRAY(3);
  a[4] = ARRAY(4);
  a[5] = ARRAY(5);
  a[6] = ARRAY(6);
  a[7] = ARRAY(7);
  a[8] = ARRAY(8);
  a[9] = ARRAY(9);
  a[10] = ARRAY(10);
  a[11] = ARRAY(11);
  for (int k = 0; k < ARRAYS; k++)
    for (int i = 0; i < ELEMENTS; i++) a[k][i] = (uint64_t)i * (uint64_t)k;
  for (int i = 0; i < SWEEPS; i++) sweep(a);
  printf("%llu\n", (unsigned long long)(a[0][ELEMENTS - 1] + a[6][ELEMENTS - 1]));
}
