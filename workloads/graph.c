// SPDX-License-Identifier: Apache-2.0
// Breadth-first search in a random graph of compressed rows: first[] says where a vertex's edges
// begin in targets[]. Edges are read in order, but their targets are anywhere, so the look at each
// target's distance misses most.
//
// graph [vertices] [degree] [searches]
#include <string.h>

#include "random.h"

#define UNSEEN UINT32_MAX

uint32_t *first, *targets, *distance, *queue;

NOINLINE static void make_graph(uint64_t vertices, uint64_t degree) {
  first = must(malloc((vertices + 1) * sizeof *first));
  targets = must(malloc(vertices * degree * sizeof *targets));
  distance = must(malloc(vertices * sizeof *distance));
  queue = must(malloc(vertices * sizeof *queue));
  uint64_t state = 1;
  for (uint64_t i = 0; i < vertices; i++) {
    first[i] = (uint32_t)(i * degree);
    for (uint64_t j = 0; j < degree; j++)
      targets[i * degree + j] = (uint32_t)(next_random(&state) % vertices);
  }
  first[vertices] = (uint32_t)(vertices * degree);
}

// Adds up the distances of all vertices that can be reached from the root.
NOINLINE static uint64_t search(const uint32_t* begin, const uint32_t* edges, uint32_t* seen,
                                uint32_t* waiting, uint64_t vertices, uint32_t root) {
  memset(seen, 0xff, vertices * sizeof *seen);
  uint64_t head = 0, tail = 0, sum = 0;
  seen[root] = 0;
  waiting[tail++] = root;
  while (head < tail) {
    uint32_t from = waiting[head++];
    uint32_t next = seen[from] + 1;
    for (uint32_t edge = begin[from], end = begin[from + 1]; edge < end; edge++) {
      uint32_t to = edges[edge];
      if (seen[to] != UNSEEN) continue;
      seen[to] = next;
      sum += next;
      waiting[tail++] = to;
    }
  }
  return sum;
}

int main(int argc, char** argv) {
  uint64_t vertices = argument(argc, argv, 1, 60000), degree = argument(argc, argv, 2, 8);
  uint64_t searches = argument(argc, argv, 3, 4);
  if (vertices * degree > UINT32_MAX / 2) {
    fprintf(stderr, "%s: at most 2147483647 edges, please\n", argv[0]);
    return 2;
  }
  make_graph(vertices, degree);
  uint64_t checksum = 0;
  for (uint64_t i = 0; i < searches; i++)
    checksum = checksum * 3 +
               search(first, targets, distance, queue, vertices, (uint32_t)(scatter(i) % vertices));
  free(first);
  free(targets);
  free(distance);
  free(queue);
  printf("graph checksum=%llu\n", (unsigned long long)checksum);
  return 0;
}
