// SPDX-License-Identifier: Apache-2.0
// Sums a table by random positions; only the sums are measured.
#include <stdio.h>
#include <stdlib.h>

#include "stallscope.h"

#define WORDS 100000

int main(void) {
  unsigned* prices = malloc(WORDS * sizeof *prices);
  if (prices == NULL) return 1;
  STALLSCOPE_STOP();
  STALLSCOPE_NAME(prices, WORDS * sizeof *prices, "prices");
  for (unsigned i = 0; i < WORDS; i++) prices[i] = i % 100;

  STALLSCOPE_START();
  STALLSCOPE_REGION_BEGIN("total");
  unsigned total = 0, place = 1;
  for (unsigned i = 0; i < WORDS; i++) {
    place = place * 1664525u + 1013904223u;
    total += prices[place % WORDS];
  }
  STALLSCOPE_REGION_END("total");
  STALLSCOPE_STOP();

  printf("total=%u\n", total);
  free(prices);
  return 0;
}
