// SPDX-License-Identifier: Apache-2.0
// Kills itself with SIGKILL, which nothing can catch, after some work that must still be recorded:
// work() executes 1,000,000 loads.
#include <signal.h>
#include <stdio.h>

static volatile int cell;

__attribute__((noinline)) static int work(void) {
  int sum = 0;
  for (int i = 0; i < 1000000; i++) sum += cell;
  return sum;
}

int main(void) {
  cell = 3;
  printf("sum=%d\n", work());
  fflush(stdout);
  raise(SIGKILL);
  return 0;
}
