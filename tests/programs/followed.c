// SPDX-License-Identifier: Apache-2.0
// Loops for which something is suggested, and the same with the suggestion followed by hand.
#include <stdint.h>
#include <stdio.h>

#define NOINLINE __attribute__((noinline))
#define SIDE 256
#define MANY 4000

static int64_t numbers[MANY];
static double square[SIDE][SIDE];

NOINLINE static int64_t add(void) {
  int64_t sum = 0;
  for (int i = 0; i < MANY; i++) sum += numbers[i];
  return sum;
}
NOINLINE static int64_t add_unrolled(void) {
  int64_t sum = 0;
  for (int i = 0; i < MANY; i += 4)
    sum += numbers[i], sum += numbers[i + 1], sum += numbers[i + 2], sum += numbers[i + 3];
  return sum;
}
NOINLINE static double columns(void) {
  double sum = 0;
  for (int j = 0; j < SIDE; j++)
    for (int i = 0; i < SIDE; i++) sum += square[i][j];
  return sum;
}
NOINLINE static double columns_exchanged(void) {
  double sum = 0;
  for (int i = 0; i < SIDE; i++)
    for (int j = 0; j < SIDE; j++) sum += square[i][j];
  return sum;
}
NOINLINE static int64_t odd(void) {
  int64_t sum = 0;
  for (int i = 0; i < MANY; i++) {
    if (numbers[i] & 1) {
      sum += numbers[i];
      __asm__ volatile("");  // or the compiler would do it
    }
  }
  return sum;
}
NOINLINE static int64_t odd_converted(void) {
  int64_t sum = 0;
  for (int i = 0; i < MANY; i++) sum += numbers[i] & -(numbers[i] & 1);
  return sum;
}

int main(void) {
  uint64_t random = 1;
  for (int i = 0; i < MANY; i++) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    numbers[i] = (int64_t)(random >> 40);
  }
  for (int i = 0; i < SIDE * SIDE; i++) square[i / SIDE][i % SIDE] = i;
  printf("%d %d %d\n", add() == add_unrolled(), columns() == columns_exchanged(),
         odd() == odd_converted());
  return 0;
}
