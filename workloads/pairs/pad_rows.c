// SPDX-License-Identifier: Apache-2.0
// A square array whose rows are a power of two apart, read down its columns, so that a column meets
// in few sets; after: rows are a line longer.
#include "pair.h"

enum { SIDE = 256, PADDED = SIDE + 8, PASSES = 4 };

static __attribute__((aligned(4096))) double table[SIDE][SIDE];
static __attribute__((aligned(4096))) double padded[SIDE][PADDED];

NOINLINE static double columns(void) {
  double sum = 0;
  for (int column = 0; column < SIDE; column++)
    for (int row = 0; row < SIDE; row++) sum += table[row][column];
  return sum;
}
NOINLINE static double padded_columns(void) {
  double sum = 0;
  for (int column = 0; column < SIDE; column++)
    for (int row = 0; row < SIDE; row++) sum += padded[row][column];
  return sum;
}

int main(int argc, char** argv) {
  const int after = is_after(argc, argv);
  double sum = 0;
  for (int i = 0; i < PASSES; i++) sum += after ? padded_columns() : columns();
  printf("%g\n", sum);
}
