// SPDX-License-Identifier: Apache-2.0
// A heap array with rows, read down its columns; after: it is kept by columns.
#include "pair.h"

enum { ROWS = 1500, COLUMNS = 150, PASSES = 2 };

NOINLINE static double* make_table(void) {
  double* table = must(malloc(ROWS * COLUMNS * sizeof *table));
  for (int i = 0; i < ROWS * COLUMNS; i++) table[i] = 1.0;
  return table;
}
NOINLINE static double by_rows(const double* table) {
  double sum = 0;
  for (int column = 0; column < COLUMNS; column++)
    for (int row = 0; row < ROWS; row++) sum += table[row * COLUMNS + column];
  return sum;
}
NOINLINE static double by_columns(const double* table) {
  double sum = 0;
  for (int column = 0; column < COLUMNS; column++)
    for (int row = 0; row < ROWS; row++) sum += table[column * ROWS + row];
  return sum;
}

int main(int argc, char** argv) {
  const int after = is_after(argc, argv);
  double* table = make_table();
  double sum = 0;
  for (int i = 0; i < PASSES; i++) sum += after ? by_columns(table) : by_rows(table);
  printf("%g\n", sum);
}
