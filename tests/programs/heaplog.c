// SPDX-License-Identifier: Apache-2.0
// Makes blocks by every allocation function, on paths that differ in one frame, and says which live
// where: lines of "FUNCTION ADDRESS SIZE", then "ready". It waits for a line on standard input,
// frees and resizes, says again what lives, and waits once more.
//
// heaplog [threads] [fork|exec]
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define MOST 4096

struct said {
  const char* function;
  void* block;
  size_t size;
};

static struct said all[MOST];
static int count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

NOINLINE static void* say(const char* function, void* block, size_t size) {
  pthread_mutex_lock(&lock);
  if (block == NULL || count == MOST) abort();
  all[count++] = (struct said){function, block, size};
  pthread_mutex_unlock(&lock);
  return block;
}

NOINLINE static void* wrapped(size_t size) {
  void* block = malloc(size);
  __asm__ volatile("" ::"r"(block));
  return block;
}

// The same frames in size, so that their blocks differ in a return address and in nothing else.
NOINLINE static void* by_first(size_t size) { return say("by_first", wrapped(size), size); }
NOINLINE static void* by_second(size_t size) { return say("by_second", wrapped(size), size); }
NOINLINE static void* by_calloc(size_t size) { return say("by_calloc", calloc(3, size), 3 * size); }

NOINLINE static void* by_realloc(size_t size) {
  return say("by_realloc", realloc(wrapped(size / 2), size), size);
}

NOINLINE static void* by_reallocarray(size_t size) {
  return say("by_reallocarray", reallocarray(NULL, 2, size), 2 * size);
}

NOINLINE static void* by_memalign(size_t size) {
  return say("by_memalign", memalign(64, size), size);
}

NOINLINE static void* by_aligned_alloc(size_t size) {
  return say("by_aligned_alloc", aligned_alloc(32, (size + 31) / 32 * 32), (size + 31) / 32 * 32);
}

NOINLINE static void* by_posix_memalign(size_t size) {
  void* block = NULL;
  if (posix_memalign(&block, 128, size) != 0) abort();
  return say("by_posix_memalign", block, size);
}

NOINLINE static void* by_valloc(size_t size) { return say("by_valloc", valloc(size), size); }
NOINLINE static void* by_large(size_t size) { return say("by_large", malloc(size), size); }

NOINLINE static void* by_recursion(int depth, size_t size) {
  if (depth == 0) return say("by_recursion", wrapped(size), size);
  void* block = by_recursion(depth - 1, size);
  __asm__ volatile("" ::"r"(block));
  return block;
}

static void* make(void* data) {
  (void)data;
  for (size_t size = 1; size < 3000; size += 1 + size / 3) {
    by_first(size);
    by_second(size);
    by_calloc(size);
    by_realloc(size);
    by_reallocarray(size);
    by_memalign(size);
    by_aligned_alloc(size);
    by_posix_memalign(size);
    by_recursion((int)(size % 7), size);
  }
  by_valloc(300);
  by_first(32767);
  by_large(32768);
  by_large(200000);
  by_large(3000000);
  return NULL;
}

static void wait_for_reader(void) {
  for (int i = 0; i < count; i++) printf("%s %p %zu\n", all[i].function, all[i].block, all[i].size);
  printf("ready\n");
  fflush(stdout);
  char line[8];
  if (fgets(line, sizeof line, stdin) == NULL) exit(3);
}

// Every second block goes, and every fifth of the others grows or shrinks.
NOINLINE static void change(void) {
  int kept = 0;
  for (int i = 0; i < count; i++) {
    struct said one = all[i];
    if (i % 2 == 1) {
      free(one.block);
      continue;
    }
    if (i % 5 == 0) {
      one.size = i % 3 == 0 ? one.size * 3 + 1 : one.size / 3 + 1;
      one.function = "change";
      one.block = realloc(one.block, one.size);
    }
    all[kept++] = one;
  }
  count = kept;
}

int main(int argc, char** argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 0;
  if (argc > 2 && strcmp(argv[2], "exec") == 0)
    return execl("/proc/self/exe", argv[0], argv[1], (char*)NULL);
  make(NULL);
  pthread_t all_threads[64];
  for (int i = 0; i < threads && i < 64; i++)
    if (pthread_create(&all_threads[i], NULL, make, NULL) != 0) abort();
  for (int i = 0; i < threads && i < 64; i++) pthread_join(all_threads[i], NULL);
  if (argc > 2 && strcmp(argv[2], "fork") == 0) {
    pid_t child = fork();
    int status = 0;
    if (child > 0) return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : 4;
    count = 0;
    make(NULL);
    printf("child %d\n", (int)getpid());
  }
  wait_for_reader();
  change();
  wait_for_reader();
  return 0;
}
