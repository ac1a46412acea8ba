// SPDX-License-Identifier: Apache-2.0
// A heap array with rows, each column followed from row to row; after: it is kept by columns.
#include "pair.h"

enum { ROWS = 1200, COLUMNS = 160, PASSES = 3 };

NOINLINE static uint64_t* make_table(void) {
  uint64_t* table = must(malloc(ROWS * COLUMNS * sizeof *table));
  for (uint64_t i = 0; i < ROWS * COLUMNS; i++) table[i] = 1;
  return table;
}
NOINLINE static uint64_t by_rows(const uint64_t* table) {
  uint64_t sum = 0;
  for (uint64_t column = 0; column < COLUMNS; column++)
    for (uint64_t row = 0; row < ROWS; sum++) row += table[row * COLUMNS + column];
  return sum;
}
NOINLINE static uint64_t by_columns(const uint64_t* table) {
  uint64_t sum = 0;
  for (uint64_t column = 0; column < COLUMNS; column++)
    for (uint64_t row = 0; row < ROWS; sum++) row += table[column * ROWS + row];
  return sum;
}

int main(int argc, char** argv) {
  const int after = is_after(argc, argv);
  const uint64_t* table = make_table();
  uint64_t sum = 0;
  for (int i = 0; i < PASSES; i++) sum += after ? by_columns(table) : by_rows(table);
  printf("%llu\n", (unsigned long long)sum);
}
