// SPDX-License-Identifier: Apache-2.0
// Nodes of a search tree, with the names that belong to them allocated in between and hardly ever
// read; after: the nodes are together.
#include "pair.h"

enum { NODES = 8000, LOOKUPS = 200000, NAME = 72 };

struct leaf {
  struct leaf *left, *right;
  uint64_t key;
  char* name;
};

NOINLINE static struct leaf* make_leaf(void) { return must(malloc(sizeof(struct leaf))); }
NOINLINE static char* make_name(void) { return must(malloc(NAME)); }

NOINLINE static struct leaf* build(int pooled, uint64_t low, uint64_t high, struct leaf** pool) {
  if (low >= high) return NULL;
  const uint64_t middle = (low + high) / 2;
  struct leaf* leaf = pooled ? (*pool)++ : make_leaf();
  leaf->name = make_name();
  leaf->name[0] = (char)middle;
  leaf->key = middle;
  leaf->left = build(pooled, low, middle, pool);
  leaf->right = build(pooled, middle + 1, high, pool);
  return leaf;
}

NOINLINE static uint64_t find(const struct leaf* leaf, uint64_t key) {
  uint64_t steps = 0;
  while (leaf != NULL && leaf->key != key) {
    leaf = key < leaf->key ? leaf->left : leaf->right;
    steps++;
  }
  return steps;
}

int main(int argc, char** argv) {
  const int pooled = is_after(argc, argv);
  struct leaf* pool = pooled ? must(aligned_alloc(64, NODES * sizeof *pool)) : NULL;
  struct leaf* root = build(pooled, 0, NODES, &pool);
  uint64_t state = 1, steps = 0;
  for (int i = 0; i < LOOKUPS; i++) steps += find(root, next_random(&state) % NODES);
  printf("%llu\n", (unsigned long long)steps);
}
