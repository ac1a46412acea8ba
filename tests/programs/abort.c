// SPDX-License-Identifier: Apache-2.0
// Ends by abort(), so by SIGABRT, with a heap block still alive.
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  volatile char* block = malloc(1000);
  if (block == NULL) return 1;
  block[0] = 1;
  printf("before the abort\n");
  fflush(stdout);
  abort();
}
