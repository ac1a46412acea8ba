// SPDX-License-Identifier: Apache-2.0
// Goes over 3 MiB again and again, a line at a time, and says when ten passes are over.
#include <stdio.h>
#include <stdlib.h>

#include "stallscope.h"

#define LINE 64
#define BYTES (3 << 20)

static char area[BYTES];

int main(int argc, char** argv) {
  const int passes = argc > 1 ? atoi(argv[1]) : 10;
  long sum = 0;
  for (int pass = 0; pass < passes; pass++) {
    for (int i = 0; i < BYTES; i += LINE) sum += ((volatile char*)area)[i];
    STALLSCOPE_WHEN(pass % 10 == 9, "tenth pass", pass);
  }
  printf("%ld\n", sum);
  return 0;
}
