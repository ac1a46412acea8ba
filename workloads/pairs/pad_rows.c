// SPDX-License-Identifier: Apache-2.0
// A square array whose rows are a power of two apart. Each column is followed from row to row, so
// that it meets in few sets; after: rows are a line longer.
#include "pair.h"

enum { SIDE = 256, PADDED = SIDE + 8, COLUMNS = 32, PASSES = 24 };

static __attribute__((aligned(4096))) uint64_t table[SIDE][SIDE];
static __attribute__((aligned(4096))) uint64_t padded[SIDE][PADDED];

// Each element tells how many rows further the next one is: always one.
NOINLINE static void fill(uint64_t* first, uint64_t row) {
  for (uint64_t i = 0; i < SIDE; i++)
    for (uint64_t j = 0; j < SIDE; j++) first[i * row + j] = 1;
}
NOINLINE static uint64_t follow(void) {
  uint64_t sum = 0;
  for (int column = 0; column < COLUMNS; column++)
    for (uint64_t row = 0; row < SIDE; sum++) row += table[row][column];
  return sum;
}
NOINLINE static uint64_t follow_padded(void) {
  uint64_t sum = 0;
  for (int column = 0; column < COLUMNS; column++)
    for (uint64_t row = 0; row < SIDE; sum++) row += padded[row][column];
  return sum;
}

int main(int argc, char** argv) {
  const int after = is_after(argc, argv);
  uint64_t sum = 0;
  fill(after ? &padded[0][0] : &table[0][0], after ? PADDED : SIDE);
  for (int i = 0; i < PASSES; i++) sum += after ? follow_padded() : follow();
  printf("%llu\n", (unsigned long long)sum);
}
