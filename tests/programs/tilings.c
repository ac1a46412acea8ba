// SPDX-License-Identifier: Apache-2.0
// Nests of loops: two that may run in tiles, and others that may not, each for a reason of its own.
#include <stdio.h>

enum { SIDE = 40 };
static long from[SIDE][SIDE], to[SIDE][SIDE], product[SIDE][SIDE];
static int where[SIDE];

#define NOINLINE __attribute__((noipa))

NOINLINE static void turns(void) {
  for (int i = 0; i < SIDE; i++)
    for (int j = 0; j < SIDE; j++) to[j][i] = from[i][j];
}
NOINLINE static void multiplies(void) {
  for (int i = 0; i < SIDE; i++)
    for (int j = 0; j < SIDE; j++) {
      long sum = 0;
      for (int k = 0; k < SIDE; k++) sum += from[i][k] * to[k][j];
      product[i][j] = sum;
    }
}
// Reads what a turn of the outer loop before wrote, one column further on.
NOINLINE static void leans(void) {
  for (int i = 1; i < SIDE; i++)
    for (int j = 0; j < SIDE - 1; j++) from[i][j] = from[i - 1][j + 1] + 1;
}
NOINLINE static void half(void) {
  for (int i = 0; i < SIDE; i++)
    for (int j = 0; j <= i; j++) to[j][i] = from[i][j];
}
NOINLINE static long goes_on(long sum) {
  for (int i = 0; i < SIDE; i++)
    for (int j = 0; j < SIDE; j++) sum = sum * 3 + to[j][i];
  return sum;
}
NOINLINE static void jumps(void) {
  for (int i = 0; i < SIDE; i++)
    for (int j = 0; j < SIDE; j++) to[j][i] = from[i][where[j]];
}

int main(void) {
  for (int i = 0; i < SIDE; i++) where[i] = i * i % SIDE;
  turns();
  multiplies();
  leans();
  half();
  jumps();
  printf("%ld %ld\n", product[1][2], goes_on(1));
  return 0;
}
