// SPDX-License-Identifier: Apache-2.0
// Two ways to use memory in one program: `swept` is gone over from begin to end, time and again,
// and `clustered` is used in clusters, each for a while and most of them never again. One serves
// who was used last to go, the other who was not used longest.
//
// sweep [pages: of swept] [rounds] [cluster: pages of a cluster]
#include "form.h"

#define PAGE 4096
#define WORDS (PAGE / 8)
#define TOUCHES 8  // words of a page
#define VISITS 4   // to the cluster for each page that is swept
#define STAY 2000  // visits to a cluster

NOINLINE static uint64_t* make_swept(uint64_t pages) {
  uint64_t* swept = must(aligned_alloc(PAGE, pages * PAGE));
  return swept;
}
NOINLINE static uint64_t* make_clustered(uint64_t pages) {
  uint64_t* clustered = must(aligned_alloc(PAGE, pages * PAGE));
  return clustered;
}

static uint64_t touch(uint64_t* page) {
  uint64_t sum = 0;
  for (long i = 0; i < TOUCHES; i++) sum += page[i * (WORDS / TOUCHES)]++;
  return sum;
}

NOINLINE static uint64_t visit(uint64_t* clustered, uint64_t pages, uint64_t cluster,
                               uint64_t number) {
  uint64_t first = number / STAY * (cluster / 2) % (pages - cluster + 1);
  return touch(clustered + (first + scatter(number) % cluster) * WORDS);
}

NOINLINE static uint64_t sweep(uint64_t* swept, uint64_t* clustered, uint64_t pages,
                               uint64_t cluster, uint64_t round) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < pages; i++) {
    sum += touch(swept + i * WORDS);
    for (uint64_t j = 0; j < VISITS; j++)
      sum ^= visit(clustered, pages, cluster, (round * pages + i) * VISITS + j);
  }
  return sum;
}

NOINLINE static void fill(uint64_t* memory, uint64_t pages) {
  for (uint64_t i = 0; i < pages * WORDS; i += WORDS / TOUCHES) memory[i] = scatter(i);
}

int main(int argc, char** argv) {
  uint64_t pages = argument(argc, argv, 1, 1000), rounds = argument(argc, argv, 2, 20);
  uint64_t cluster = argument(argc, argv, 3, 64);
  if (cluster < 2 || cluster > pages) {
    fprintf(stderr, "%s: a cluster has from 2 pages to all, please\n", argv[0]);
    return 2;
  }
  uint64_t *swept = make_swept(pages), *clustered = make_clustered(pages);
  fill(swept, pages);
  fill(clustered, pages);
  uint64_t sum = 0;
  for (uint64_t round = 0; round < rounds; round++)
    sum += sweep(swept, clustered, pages, cluster, round);
  printf("sweep checksum=%llu\n", (unsigned long long)sum);
  free(clustered);
  free(swept);
  return 0;
}
