// SPDX-License-Identifier: Apache-2.0
// Loops for which something is suggested, and the same with the suggestion followed by hand.
#include <stdint.h>
#include <stdio.h>

#define NOINLINE __attribute__((noinline))
#define SIDE 256
#define MANY 4800
#define FEW 400

static int64_t numbers[MANY];
static double square[SIDE][SIDE];
static double doubles[FEW], scaled[FEW];

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

/* Thirty multiplications, each of what the one before made. */
#define THREE(x) x *= 1.5, x *= 0.75, x *= 0.875
#define THIRTY(x) \
  THREE(x), THREE(x), THREE(x), THREE(x), THREE(x), THREE(x), THREE(x), THREE(x), THREE(x), THREE(x)

/* The same of two, turn by turn. */
#define THREE_OF_BOTH(x, y) x *= 1.5, y *= 1.5, x *= 0.75, y *= 0.75, x *= 0.875, y *= 0.875
#define NINE_OF_BOTH(x, y) THREE_OF_BOTH(x, y), THREE_OF_BOTH(x, y), THREE_OF_BOTH(x, y)
#define THIRTY_OF_BOTH(x, y) \
  NINE_OF_BOTH(x, y), NINE_OF_BOTH(x, y), NINE_OF_BOTH(x, y), THREE_OF_BOTH(x, y)

NOINLINE static void scale(void) {
  for (int i = 0; i < FEW; i++) {
    double x = doubles[i];
    THIRTY(x), THIRTY(x);
    scaled[i] = x;
  }
}
/* In two stages: the second half for one element beside the first half for the next. */
NOINLINE static void scale_pipelined(void) {
  double x = doubles[0];
  THIRTY(x);
  for (int i = 1; i < FEW; i++) {
    double next = doubles[i];
    THIRTY_OF_BOTH(next, x);
    scaled[i - 1] = x;
    x = next;
  }
  THIRTY(x);
  scaled[FEW - 1] = x;
}

int main(void) {
  uint64_t random = 1;
  for (int i = 0; i < MANY; i++) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    numbers[i] = (int64_t)(random >> 40);
  }
  for (int i = 0; i < FEW; i++) doubles[i] = (double)numbers[i];
  scale();
  const double sum = scaled[0] + scaled[1] + scaled[FEW / 2] + scaled[FEW - 1];
  scale_pipelined();
  const double again = scaled[0] + scaled[1] + scaled[FEW / 2] + scaled[FEW - 1];
  for (int i = 0; i < SIDE * SIDE; i++) square[i / SIDE][i % SIDE] = i;
  printf("%d %d %d %d\n", add() == add_unrolled(), columns() == columns_exchanged(),
         odd() == odd_converted(), sum == again);
  return 0;
}
