// SPDX-License-Identifier: Apache-2.0
// Sweeps along a dozen large heap arrays at once, each made at a line of its own. Large blocks of
// malloc all begin at the same place of a page, so all of them share a set of the cache at any
// time.
//
// arrays [elements] [sweeps]
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ARRAYS = 12 };

__attribute__((noinline)) static void sweep(uint64_t** a, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) {
    a[0][i] += a[1][i] + a[2][i] + a[3][i] + a[4][i] + a[5][i];
    a[6][i] += a[7][i] + a[8][i] + a[9][i] + a[10][i] + a[11][i];
  }
}

int main(int argc, char** argv) {
  uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 50000;
  uint64_t sweeps = argc > 2 ? strtoull(argv[2], NULL, 10) : 5;
  uint64_t* a[ARRAYS];
  a[0] = malloc(n * 8);
  a[1] = malloc(n * 8);
  a[2] = malloc(n * 8);
  a[3] = malloc(n * 8);
  a[4] = malloc(n * 8);
  a[5] = malloc(n * 8);
  a[6] = malloc(n * 8);
  a[7] = malloc(n * 8);
  a[8] = malloc(n * 8);
  a[9] = malloc(n * 8);
  a[10] = malloc(n * 8);
  a[11] = malloc(n * 8);
  for (int k = 0; k < ARRAYS; k++)
    for (uint64_t i = 0; i < n; i++) a[k][i] = i * (uint64_t)k;
  for (uint64_t i = 0; i < sweeps; i++) sweep(a, n);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < n; i++) sum = sum * 3 + a[0][i] + a[6][i];
  for (int k = 0; k < ARRAYS; k++) free(a[k]);
  printf("checksum=%llu\n", (unsigned long long)sum);
  return 0;
}
