// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "project.h"

int main(void) {
  printf("%s times %s is %d\n", word(3), word(4), multiply(3, 4));
  return 0;
}
