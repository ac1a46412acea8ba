// SPDX-License-Identifier: Apache-2.0
// Waits for a line, adds up the numbers below a thousand, says the sum, and ends at the next line.
#include <stdio.h>

static volatile long total;

int main(void) {
  if (getchar() == EOF) return 1;
  for (long i = 0; i < 1000; i++) total += i;
  printf("%ld\n", total);
  fflush(stdout);
  getchar();
  return 0;
}
