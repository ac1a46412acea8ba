// SPDX-License-Identifier: Apache-2.0
// Mutexes, a condition variable and a barrier. A plain counter under a mutex must come out right,
// and two threads that take turns through a condition must alternate strictly.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNTERS 4
#define INCREMENTS 20000
#define TURNS 500

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t start_line;
static long counter;
static int turn, turns_taken;

static void* count(void* unused) {
  (void)unused;
  pthread_barrier_wait(&start_line);
  for (int i = 0; i < INCREMENTS; i++) {
    pthread_mutex_lock(&mutex);
    counter++;
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

static void* take_turns(void* argument) {
  int mine = *(int*)argument;
  for (int i = 0; i < TURNS; i++) {
    pthread_mutex_lock(&mutex);
    while (turn != mine) pthread_cond_wait(&turned, &mutex);
    turns_taken++;
    turn = 1 - mine;
    pthread_cond_signal(&turned);
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

static void run(void* (*function)(void*), int threads) {
  pthread_t ids[COUNTERS];
  int numbers[COUNTERS];
  for (int i = 0; i < threads; i++) {
    numbers[i] = i;
    if (pthread_create(&ids[i], NULL, function, &numbers[i]) != 0) abort();
  }
  for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
}

int main(void) {
  pthread_barrier_init(&start_line, NULL, COUNTERS);
  run(count, COUNTERS);
  run(take_turns, 2);
  printf("counter=%ld turns=%d\n", counter, turns_taken);
  return counter == (long)COUNTERS * INCREMENTS && turns_taken == 2 * TURNS ? 0 : 1;
}
