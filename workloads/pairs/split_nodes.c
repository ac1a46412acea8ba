// SPDX-License-Identifier: Apache-2.0
// A list whose nodes carry a payload that the walk does not read; after: the payload lies apart, in
// blocks of its own.
#include "pair.h"

enum { NODES = 8000, PASSES = 250 };

struct entry {
  struct entry* next;
  uint64_t key;
  uint64_t payload[14];
};
struct payload {
  uint64_t words[14];
};
struct slim {
  struct slim* next;
  uint64_t key;
};

NOINLINE static struct entry* make_entry(void) { return must(malloc(sizeof(struct entry))); }

NOINLINE static uint64_t walk(const struct entry* entry) {
  uint64_t sum = 0;
  for (; entry != NULL; entry = entry->next) sum = 3 * sum + entry->key;
  return sum;
}

NOINLINE static uint64_t walk_slim(const struct slim* entry) {
  uint64_t sum = 0;
  for (; entry != NULL; entry = entry->next) sum = 3 * sum + entry->key;
  return sum;
}

NOINLINE static struct entry* build(void) {
  struct entry* head = NULL;
  for (uint64_t i = 0; i < NODES; i++) {
    struct entry* entry = make_entry();
    entry->key = entry->payload[0] = i;
    entry->next = head;
    head = entry;
  }
  return head;
}

NOINLINE static struct slim* build_slim(void) {
  struct slim* pool = must(aligned_alloc(64, NODES * sizeof *pool));
  struct payload* payloads = must(malloc(NODES * sizeof *payloads));
  struct slim* head = NULL;
  for (uint64_t i = 0; i < NODES; i++) {
    pool[i].key = payloads[i].words[0] = i;
    pool[i].next = head;
    head = &pool[i];
  }
  return head;
}

int main(int argc, char** argv) {
  uint64_t sum = 0;
  if (is_after(argc, argv)) {
    struct slim* head = build_slim();
    for (int i = 0; i < PASSES; i++) sum += walk_slim(head);
  } else {
    struct entry* head = build();
    for (int i = 0; i < PASSES; i++) sum += walk(head);
  }
  printf("%llu\n", (unsigned long long)sum);
}
