// SPDX-License-Identifier: Apache-2.0
// Walks over blocks again and again until its standard input ends: somebody may look meanwhile.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 20000 };

struct block {
  struct block* next;
  long payload[7];
};

int main(void) {
  struct block* first = NULL;
  for (int i = 0; i < COUNT; i++) {
    struct block* made = calloc(1, sizeof *made);
    made->next = first;
    first = made;
  }
  struct pollfd input = {.fd = 0, .events = POLLIN};
  long sum = 0;
  while (poll(&input, 1, 0) == 0) {
    for (struct block* block = first; block != NULL; block = block->next)
      sum += block->payload[0]++;
  }
  printf("%d\n", sum < 0);
  return 0;
}
