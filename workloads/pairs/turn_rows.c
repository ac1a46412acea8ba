// SPDX-License-Identifier: Apache-2.0
// A heap array with rows, each column followed from row to row; after: it is kept by columns. Every
// element tells how far the next one is.
#include "pair.h"

enum { ROWS = 1200, COLUMNS = 160, PASSES = 10 };

NOINLINE static uint64_t* make_table(uint64_t step) {
  uint64_t* table = must(malloc(ROWS * COLUMNS * sizeof *table));
  for (uint64_t i = 0; i < ROWS * COLUMNS; i++) table[i] = step;
  return table;
}
NOINLINE static uint64_t follow(const uint64_t* table, uint64_t at, uint64_t end) {
  uint64_t sum = 0;
  for (; at < end; sum++) at += table[at];
  return sum;
}

int main(int argc, char** argv) {
  const int after = is_after(argc, argv);
  const uint64_t* table = make_table(after ? 1 : COLUMNS);
  uint64_t sum = 0;
  for (int i = 0; i < PASSES; i++)
    for (uint64_t column = 0; column < COLUMNS; column++)
      sum += after ? follow(table, column * ROWS, (column + 1) * ROWS)
                   : follow(table, column, ROWS * COLUMNS);
  printf("%llu\n", (unsigned long long)sum);
}
