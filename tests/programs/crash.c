// SPDX-License-Identifier: Apache-2.0
// Dies of SIGSEGV after it has printed: the store to the null page is the last thing it does.
#include <stdio.h>

int main(void) {
  printf("before the crash\n");
  fflush(stdout);
  volatile int* volatile nowhere = NULL;
  *nowhere = 1;
  printf("never\n");
  return 0;
}
