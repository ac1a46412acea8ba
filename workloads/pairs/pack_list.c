// SPDX-License-Identifier: Apache-2.0
// A list of small nodes, each a block of malloc's with its header; after: all in one pool.
#include "pair.h"

enum { NODES = 10000, PASSES = 500 };

struct link {
  struct link* next;
  uint64_t value;
};

NOINLINE static struct link* make_link(void) { return must(malloc(sizeof(struct link))); }

NOINLINE static struct link* build(int pooled) {
  struct link* pool = pooled ? must(aligned_alloc(64, NODES * sizeof *pool)) : NULL;
  struct link* head = NULL;
  for (uint64_t i = 0; i < NODES; i++) {
    struct link* link = pooled ? &pool[i] : make_link();
    link->value = i;
    link->next = head;
    head = link;
  }
  return head;
}

NOINLINE static uint64_t walk(const struct link* link) {
  uint64_t sum = 0;
  for (; link != NULL; link = link->next) sum += link->value;
  return sum;
}

int main(int argc, char** argv) {
  struct link* head = build(is_after(argc, argv));
  uint64_t sum = 0;
  for (int i = 0; i < PASSES; i++) sum += walk(head);
  printf("%llu\n", (unsigned long long)sum);
}
