// SPDX-License-Identifier: Apache-2.0
// What the pairs share: `PAIR before|after [passes]`. Both do the same to the same data; only where
// the data lies differs, or who works on which part of it.
#ifndef STALLSCOPE_PAIR_H
#define STALLSCOPE_PAIR_H

#include <string.h>

#include "../random.h"

static inline int is_after(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "before") == 0) return 0;
  if (argc > 1 && strcmp(argv[1], "after") == 0) return 1;
  fprintf(stderr, "usage: %s before|after\n", argv[0]);
  exit(2);
}

#endif
