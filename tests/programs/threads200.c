// SPDX-License-Identifier: Apache-2.0
// 200 threads that come and go, at most 20 at a time. Each works, then is named: the even ones name
// themselves (late-NNN), the odd ones are named by the main thread (given-NNN), which goes through
// a file of the kernel. 201 threads in all.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 200
#define AT_A_TIME 20

static pthread_barrier_t worked, named;
static uint64_t results[THREADS];

static void* work(void* argument) {
  int number = *(int*)argument;
  uint64_t* data = malloc(1024 * sizeof *data);
  if (data == NULL) abort();
  for (int i = 0; i < 1024; i++) data[i] = (uint64_t)(i ^ number);
  for (int i = 0; i < 1024; i++) results[number] += data[i];
  free(data);
  if (number % 2 == 0) {
    char name[16];
    snprintf(name, sizeof name, "late-%03d", number % 1000);
    pthread_setname_np(pthread_self(), name);
  }
  pthread_barrier_wait(&worked);
  pthread_barrier_wait(&named);
  return NULL;
}

static void wave(int first) {
  pthread_t threads[AT_A_TIME];
  int numbers[AT_A_TIME];
  for (int i = 0; i < AT_A_TIME; i++) {
    numbers[i] = first + i;
    if (pthread_create(&threads[i], NULL, work, &numbers[i]) != 0) abort();
  }
  pthread_barrier_wait(&worked);
  for (int i = 0; i < AT_A_TIME; i++) {
    if (numbers[i] % 2 == 0) continue;
    char name[16];
    snprintf(name, sizeof name, "given-%03d", numbers[i] % 1000);
    if (pthread_setname_np(threads[i], name) != 0) abort();
  }
  pthread_barrier_wait(&named);
  for (int i = 0; i < AT_A_TIME; i++) pthread_join(threads[i], NULL);
}

int main(void) {
  pthread_barrier_init(&worked, NULL, AT_A_TIME + 1);
  pthread_barrier_init(&named, NULL, AT_A_TIME + 1);
  for (int first = 0; first < THREADS; first += AT_A_TIME) wave(first);
  uint64_t sum = 0;
  for (int i = 0; i < THREADS; i++) sum += results[i];
  printf("threads=%d sum=%llu\n", THREADS, (unsigned long long)sum);
  return 0;
}
