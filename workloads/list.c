// SPDX-License-Identifier: Apache-2.0
// A linked list, each node a heap block of its own, walked again and again. In order, the next node
// is the next block; shuffled, it is anywhere. Either way each visit touches one new cache line:
// malloc puts 64-byte nodes 80 bytes apart, and a node's first 16 bytes never cross a line.
//
// list [nodes] [passes] [inorder|shuffled] [rounds of arithmetic at each node]
#include <string.h>

#include "random.h"

struct node {
  struct node* next;
  uint64_t payload[7];
};

NOINLINE static struct node* make_node(uint64_t number) {
  struct node* node = must(malloc(sizeof *node));
  node->next = NULL;
  for (int i = 0; i < 7; i++) node->payload[i] = number + i;
  return node;
}

NOINLINE static void shuffle(struct node** nodes, uint64_t count) {
  uint64_t state = 1;
  for (uint64_t i = count - 1; i > 0; i--) {
    uint64_t j = next_random(&state) % (i + 1);
    struct node* held = nodes[i];
    nodes[i] = nodes[j];
    nodes[j] = held;
  }
}

NOINLINE static struct node* build_list(uint64_t count, int shuffled) {
  struct node** order = must(malloc(count * sizeof *order));
  for (uint64_t i = 0; i < count; i++) order[i] = make_node(i);
  if (shuffled) shuffle(order, count);
  for (uint64_t i = 0; i + 1 < count; i++) order[i]->next = order[i + 1];
  struct node* head = order[0];
  free(order);
  return head;
}

NOINLINE static uint64_t walk(const struct node* node, uint64_t sum) {
  while (node != NULL) {
    sum = sum * 3 + node->payload[0];
    node = node->next;
  }
  return sum;
}

// The same with more to do at each node, as programs have it that not only look.
NOINLINE static uint64_t walk_and_work(const struct node* node, uint64_t sum, uint64_t rounds) {
  while (node != NULL) {
    uint64_t value = node->payload[0];
    for (uint64_t i = 0; i < rounds; i++) value = scatter(value);
    sum = sum * 3 + value;
    node = node->next;
  }
  return sum;
}

NOINLINE static void free_list(struct node* node) {
  while (node != NULL) {
    struct node* next = node->next;
    free(node);
    node = next;
  }
}

int main(int argc, char** argv) {
  uint64_t nodes = argument(argc, argv, 1, 50000), passes = argument(argc, argv, 2, 20);
  const char* order = argc > 3 ? argv[3] : "shuffled";
  if (strcmp(order, "inorder") != 0 && strcmp(order, "shuffled") != 0) {
    fprintf(stderr, "%s: the order is inorder or shuffled, not '%s'\n", argv[0], order);
    return 2;
  }
  struct node* head = build_list(nodes, order[0] == 's');
  uint64_t checksum = 0;
  uint64_t rounds = argument(argc, argv, 4, 1);
  for (uint64_t i = 0; i < passes; i++)
    checksum = rounds > 1 ? walk_and_work(head, checksum, rounds) : walk(head, checksum);
  free_list(head);
  printf("list checksum=%llu\n", (unsigned long long)checksum);
  return 0;
}
