// SPDX-License-Identifier: Apache-2.0
// What workloads with a slow form and cured ones need: the form by its name.
#ifndef STALLSCOPE_WORKLOADS_FORM_H
#define STALLSCOPE_WORKLOADS_FORM_H

#include <string.h>

#include "random.h"

// The number of the index-th argument among the words (NULL ends them); 0 when it is left out.
static inline int form_argument(int argc, char** argv, int index, const char* const* words) {
  if (index >= argc) return 0;
  for (int i = 0; words[i] != NULL; i++)
    if (strcmp(words[i], argv[index]) == 0) return i;
  fprintf(stderr, "%s: argument %d must be one of:", argv[0], index);
  for (int i = 0; words[i] != NULL; i++) fprintf(stderr, " %s", words[i]);
  fputc('\n', stderr);
  exit(2);
}

// Bits of a floating-point number, for checksums that do not depend on the order of summing up.
static inline uint64_t bits_of(double number) {
  uint64_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

#endif
