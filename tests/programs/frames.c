// SPDX-License-Identifier: Apache-2.0
// Large arrays on the stack: owner() has one and gives it to worker(), which fills it; deep() calls
// itself three times, each with an array of its own; a thread does what main did. Each array is
// touched line by line once it is there.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LINE 64
#define OWNED 400
#define DEEP 300

__attribute__((noinline)) static void worker(volatile char* bytes, int lines) {
  for (int i = 0; i < lines; i++) bytes[i * LINE] = (char)i;
}

__attribute__((noinline)) static int owner(void) {
  volatile char bytes[OWNED * LINE];
  worker(bytes, OWNED);
  return bytes[LINE];
}

__attribute__((noinline)) static int deep(int levels) {
  volatile char bytes[DEEP * LINE];
  worker(bytes, DEEP);
  return levels > 1 ? deep(levels - 1) + bytes[LINE] : bytes[LINE];
}

static void* thread(void* unused) {
  (void)unused;
  return (void*)(long)owner();
}

int main(void) {
  pthread_t other;
  void* result = NULL;
  const int sum = owner() + deep(3);
  if (pthread_create(&other, NULL, thread, NULL) != 0) return 1;
  pthread_join(other, &result);
  printf("sum=%d thread=%ld\n", sum, (long)result);
  return 0;
}
