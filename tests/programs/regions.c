// SPDX-License-Identifier: Apache-2.0
// Touches every line of three arrays once, in regions of its own, and a heap block that gets a
// name, dies and makes room for one without. A child goes on in the region that it was born in.
//
//   region   inside   touches
//   outer             first (100 lines)
//   inner    outer    second (200 lines)
//   heap              a named block (32 lines), and then another in its place
//   fork              third (50 lines), by the child
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stallscope.h"

#define LINE 64
#define FIRST 100
#define SECOND 200
#define THIRD 50
#define BLOCK 32

static volatile char first[FIRST * LINE] __attribute__((aligned(4096)));
static volatile char second[SECOND * LINE] __attribute__((aligned(4096)));
static volatile char third[THIRD * LINE] __attribute__((aligned(4096)));

__attribute__((noinline)) static void touch(volatile char* bytes, int lines) {
  for (int i = 0; i < lines; i++) bytes[i * LINE]++;
}

__attribute__((noinline)) static void* block_of(const char* name) {
  void* block = aligned_alloc(4096, BLOCK * LINE);
  if (block != NULL && name != NULL) STALLSCOPE_NAME(block, BLOCK * LINE, name);
  touch(block, BLOCK);
  return block;
}

int main(void) {
  STALLSCOPE_REGION_BEGIN("outer");
  touch(first, FIRST);
  STALLSCOPE_REGION_BEGIN("inner");
  touch(second, SECOND);
  STALLSCOPE_REGION_END("inner");
  STALLSCOPE_REGION_END("outer");
  STALLSCOPE_REGION_BEGIN("heap");
  void* block = block_of("the block");
  const void* place = block;
  free(block);
  block = block_of(NULL);
  const int again = block == place;
  free(block);
  STALLSCOPE_REGION_END("heap");
  STALLSCOPE_REGION_BEGIN("fork");
  const pid_t child = fork();
  if (child == 0) touch(third, THIRD);
  STALLSCOPE_REGION_END("fork");
  if (child == 0) _exit(0);
  int status = 1;
  waitpid(child, &status, 0);
  printf("again=%d status=%d\n", again, status);
  return 0;
}
