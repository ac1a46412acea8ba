// SPDX-License-Identifier: Apache-2.0
// Two thousand threads, eight at a time, each of which makes and frees twenty small blocks and a
// large one, and frees what another thread made.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2000, AT_ONCE = 8, BLOCKS = 20 };

static void* passed[AT_ONCE];
static unsigned long made;

__attribute__((noinline)) static void* make_small(size_t size) {
  void* block = malloc(size);
  __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
  return block;
}

static void* live(void* data) {
  void** place = data;
  free(*place);
  void* blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) blocks[i] = make_small((size_t)i * 30 + 1);
  void* large = malloc(50000);
  for (int i = 1; i < BLOCKS; i++) free(blocks[i]);
  free(large);
  *place = blocks[0];
  return NULL;
}

int main(void) {
  int threads = 0;
  while (threads < THREADS) {
    pthread_t all[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++)
      if (pthread_create(&all[i], NULL, live, &passed[i]) != 0) return 1;
    for (int i = 0; i < AT_ONCE; i++) pthread_join(all[i], NULL);
    threads += AT_ONCE;
  }
  printf("threads=%d blocks=%lu\n", threads, made);
  return 0;
}
