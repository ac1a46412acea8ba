// SPDX-License-Identifier: Apache-2.0
// One wrong use of the near allocator, or one right use that is easy to get wrong, by name.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stallscope_near.h"

static int of_malloc(void) {
  char* block = malloc(20);
  ss_free_near(block);
  block = ss_realloc_near(malloc(20), 30, NULL);
  strcpy(block, "a block of malloc");
  ss_free_near(block);
  ss_free_near(NULL);
  return 0;
}

static int in_child(void) {
  void* block = ss_malloc_near(24, NULL);
  pid_t child = fork();
  if (child == 0) {
    void* another = ss_malloc_near(24, block);
    ss_free_near(block);
    ss_free_near(another);
    _exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ss_free_near(block);
  return WEXITSTATUS(status) == 7 ? 0 : 1;
}

static int read_after(int overrun) {
  volatile char* block = ss_malloc_near(20, NULL);
  memset((char*)block, 1, 20);
  if (overrun) return block[20];
  ss_free_near((void*)block);
  return block[3];
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  char* block = ss_malloc_near(40, NULL);
  if (strcmp(what, "of_malloc") == 0) return of_malloc();
  if (strcmp(what, "in_child") == 0) return in_child();
  if (strcmp(what, "overrun") == 0) return read_after(1);
  if (strcmp(what, "use_after_free") == 0) return read_after(0);
  if (strcmp(what, "inside") == 0) ss_free_near(block + 8);
  if (strcmp(what, "odd") == 0) ss_free_near(block + 1);
  if (strcmp(what, "twice") == 0) {
    ss_free_near(block);
    ss_free_near(block);
  }
  return 0;
}
