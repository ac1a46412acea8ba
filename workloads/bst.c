// SPDX-License-Identifier: Apache-2.0
// A binary search tree without balancing: scattered keys go in, then look-ups, of which about half
// find their key. The nodes near the root stay in the cache, those below miss.
//
// bst [keys] [lookups]
#include "random.h"

struct node {
  uint64_t key;
  uint64_t value;
  struct node* child[2];
};

struct node* tree;

NOINLINE static struct node* make_node(uint64_t key, uint64_t value) {
  struct node* node = must(malloc(sizeof *node));
  *node = (struct node){key, value, {NULL, NULL}};
  return node;
}

// Returns the number of nodes on the way.
NOINLINE static uint64_t insert(uint64_t key, uint64_t value) {
  uint64_t visits = 0;
  struct node** place = &tree;
  for (; *place != NULL; visits++) place = &(*place)->child[key > (*place)->key];
  *place = make_node(key, value);
  return visits;
}

// The node with the key, or NULL; adds the number of nodes looked at to *visits.
NOINLINE static const struct node* lookup(const struct node* node, uint64_t key, uint64_t* visits) {
  uint64_t seen = 0;
  while (node != NULL) {
    seen++;
    if (node->key == key) break;
    node = node->child[key > node->key];
  }
  *visits += seen;
  return node;
}

NOINLINE static void free_tree(struct node* node) {
  if (node == NULL) return;
  free_tree(node->child[0]);
  free_tree(node->child[1]);
  free(node);
}

int main(int argc, char** argv) {
  uint64_t keys = argument(argc, argv, 1, 50000), lookups = argument(argc, argv, 2, 100000);
  uint64_t inserted = 0, visits = 0, found = 0, checksum = 0, state = 1;
  for (uint64_t i = 0; i < keys; i++) inserted += insert(scatter(i), i);
  for (uint64_t i = 0; i < lookups; i++) {
    const struct node* node = lookup(tree, scatter(next_random(&state) % (2 * keys)), &visits);
    if (node == NULL) continue;
    found++;
    checksum = checksum * 3 + node->value;
  }
  free_tree(tree);
  printf("bst inserted=%llu visits=%llu found=%llu checksum=%llu\n", (unsigned long long)inserted,
         (unsigned long long)visits, (unsigned long long)found, (unsigned long long)checksum);
  return 0;
}
