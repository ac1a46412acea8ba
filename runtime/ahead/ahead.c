// SPDX-License-Identifier: Apache-2.0
// The prefetch runtime, preloaded into a program: maps the memory that stallscope shares with it
// near the program's code and near its libraries, catches faults of inline prefetch code, and
// starts the assist thread. Patches of the program's code are made from outside, by stallscope.
#define _GNU_SOURCE
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "layout.h"

struct ahead_region* ahead;

#define VARIABLE "STALLSCOPE_AHEAD"
#define NEAR (1ull << 30)
#define STEP (16ull << 20)

// A free place within reach of a 32-bit displacement; the kernel says whether it is free.
static void* map_near(uint64_t place, int file) {
  place &= ~(STEP - 1);
  for (uint64_t away = STEP; away < NEAR; away += STEP) {
    uint64_t tries[2] = {place - away, place + away};
    for (int i = 0; i < 2; i++) {
      if (tries[i] > place && i == 0) continue;
      void* wanted = (void*)tries[i];
      void* got = mmap(wanted, AHEAD_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
                       MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0);
      if (got == wanted) return got;
      if (got != MAP_FAILED) munmap(got, AHEAD_SIZE);
    }
  }
  return NULL;
}

static int first_object(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  *(uint64_t*)data = info->dlpi_addr + (info->dlpi_phnum ? info->dlpi_phdr[0].p_vaddr : 0);
  return 1;
}

// The environment goes on as it was before stallscope added to it.
static void restore_environment(void) {
  unsetenv(VARIABLE);
  const char* list = getenv("LD_PRELOAD");
  if (list == NULL) return;
  const char* rest = strchr(list, ':');
  if (rest == NULL)
    unsetenv("LD_PRELOAD");
  else
    setenv("LD_PRELOAD", rest + 1, 1);
}

__attribute__((constructor)) static void begin(void) {
  const char* word = getenv(VARIABLE);
  if (word == NULL) return;
  int file = atoi(word);
  restore_environment();
  uint64_t program = 0;
  dl_iterate_phdr(first_object, &program);
  struct ahead_region* region = map_near(program, file);
  void* libraries = map_near((uint64_t)&strlen, file);
  close(file);
  if (region == NULL) return;
  uint32_t nobody = 0;
  if (region->magic != AHEAD_MAGIC ||
      !__atomic_compare_exchange_n(&region->owner, &nobody, (uint32_t)getpid(), 0, __ATOMIC_SEQ_CST,
                                   __ATOMIC_SEQ_CST)) {
    munmap(region, AHEAD_SIZE);
    if (libraries != NULL) munmap(libraries, AHEAD_SIZE);
    return;
  }
  ahead = region;
  ahead_catch_faults();
  ahead_start_assist();
  region->views[1] = (uint64_t)libraries;
  __atomic_store_n(&region->views[0], (uint64_t)region, __ATOMIC_RELEASE);
}
