// SPDX-License-Identifier: Apache-2.0
// Threads that come and go: generations of four, in two pairs that each add to a line of their own.
// Their names have characters that mean something to a terminal, to markup and to a shell.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define GENERATIONS 6
#define ADDITIONS 20000

static struct { _Alignas(256) uint64_t added; } pairs[2];

static uint64_t begun;  // threads of all generations
static const char* const names[4] = {"[/b]\x1b[31m", "a=1,b#2", "$(x);`y`", "</script>"};

static void* work(void* argument) {
  const uintptr_t number = (uintptr_t)argument;
  pthread_setname_np(pthread_self(), names[number]);
  const uint64_t awaited = (__atomic_fetch_add(&begun, 1, __ATOMIC_ACQ_REL) / 4 + 1) * 4;
  while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) < awaited) sched_yield();
  for (int i = 0; i < ADDITIONS; i++)
    __atomic_fetch_add(&pairs[number % 2].added, 1, __ATOMIC_RELAXED);
  return NULL;
}

int main(void) {
  for (int generation = 0; generation < GENERATIONS; generation++) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
      if (pthread_create(&threads[i], NULL, work, (void*)i) != 0) return 1;
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  }
  printf("%llu\n", (unsigned long long)(pairs[0].added + pairs[1].added));
  return 0;
}
