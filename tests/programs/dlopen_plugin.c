// SPDX-License-Identifier: Apache-2.0
// The library that dlopen.c loads: a variable, a heap block and a loop of its own.
#include <stdlib.h>

int plugin_calls;

int plugin_sum(int count) {
  int* numbers = malloc((size_t)count * sizeof *numbers);
  if (numbers == NULL) return -1;
  int sum = ++plugin_calls;
  for (int i = 0; i < count; i++) numbers[i] = i;
  for (int i = 0; i < count; i++) sum += numbers[i];
  free(numbers);
  return sum;
}
