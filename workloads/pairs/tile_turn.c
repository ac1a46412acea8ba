// SPDX-License-Identifier: Apache-2.0
// A table that is copied with its rows and columns exchanged, row by row; after: in tiles.
#include "pair.h"

enum { ROWS = 700, COLUMNS = 672, TILE = 16 };

NOINLINE static uint64_t* make_table(void) {
  return must(calloc(ROWS * COLUMNS, sizeof(uint64_t)));
}
NOINLINE static void turn(uint64_t* restrict to, const uint64_t* restrict from) {
  for (long i = 0; i < ROWS; i++)
    for (long j = 0; j < COLUMNS; j++) to[j * ROWS + i] = from[i * COLUMNS + j];
}
NOINLINE static void turn_tiled(uint64_t* restrict to, const uint64_t* restrict from) {
  for (long jj = 0; jj < COLUMNS; jj += TILE)
    for (long i = 0; i < ROWS; i++)
      for (long j = jj; j < jj + TILE; j++) to[j * ROWS + i] = from[i * COLUMNS + j];
}

int main(int argc, char** argv) {
  const int after = is_after(argc, argv);
  uint64_t *to = make_table(), *from = make_table();
  if (after)
    turn_tiled(to, from);
  else
    turn(to, from);
  printf("%llu\n", (unsigned long long)to[ROWS]);
}
