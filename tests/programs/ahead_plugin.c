// SPDX-License-Identifier: Apache-2.0
// A walk that lies in a library which is closed and opened again.
#include <stddef.h>
#include <stdint.h>

struct node {
  struct node* next;
  uint64_t value, room[6];
};

uint64_t plugin_walk(const struct node* node) {
  uint64_t sum = 0;
  for (; node != NULL; node = node->next) sum += node->value;
  return sum;
}
