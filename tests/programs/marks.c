// SPDX-License-Identifier: Apache-2.0
// Speaks to the recorder through stallscope.h. Regions nest and repeat, in two threads; a part is
// not measured; a global, a part of a heap block and a stack array get names.
//
//   region      times  thread
//   load            2  main
//   parse           4  main, two inside each load
//   compute         1  main
//   compute         1  the second thread
//
// unmeasured() runs once between a stop and a start; measured() runs before and after.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "stallscope.h"

#define WORDS 1000

static unsigned table[WORDS];

__attribute__((noinline)) static unsigned measured(const unsigned* words) {
  unsigned sum = 0;
  for (int i = 0; i < WORDS; i++) sum = sum * 3 + words[i];
  return sum;
}

__attribute__((noinline)) static unsigned unmeasured(const unsigned* words) {
  unsigned sum = 0;
  for (int i = 0; i < WORDS; i++) sum = sum * 5 + words[i];
  return sum;
}

static void load(unsigned* words) {
  STALLSCOPE_REGION_BEGIN("load");
  for (unsigned pass = 0; pass < 2; pass++) {
    STALLSCOPE_REGION_BEGIN("parse");
    for (unsigned i = 0; i < WORDS; i++) words[i] += i + pass;
    STALLSCOPE_REGION_END("parse");
  }
  STALLSCOPE_REGION_END("load");
}

static void* compute(void* words) {
  STALLSCOPE_REGION_BEGIN("compute");
  unsigned* sum = words;
  sum[0] = measured(words);
  STALLSCOPE_REGION_END("compute");
  return NULL;
}

int main(void) {
  unsigned* heap = calloc(2 * WORDS, sizeof *heap);
  unsigned stack[WORDS] = {0};
  pthread_t thread;
  if (heap == NULL) return 1;
  STALLSCOPE_NAME(table, sizeof table, "the table");
  STALLSCOPE_NAME(heap + WORDS, WORDS * sizeof *heap, "second half");
  STALLSCOPE_NAME(stack, sizeof stack, "on the stack");
  load(table);
  load(stack);
  unsigned before = measured(table);
  STALLSCOPE_STOP();
  unsigned hidden = unmeasured(table);
  STALLSCOPE_START();
  compute(table);
  if (pthread_create(&thread, NULL, compute, stack) != 0) return 1;
  pthread_join(thread, NULL);
  printf("before=%u hidden=%u after=%u thread=%u\n", before, hidden, table[0], stack[0]);
  fprintf(stderr, "recorded=%d\n", STALLSCOPE_RECORDED());
  free(heap);
  return 0;
}
