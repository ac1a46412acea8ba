// SPDX-License-Identifier: Apache-2.0
#include "log.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "system.h"

struct header* page_log;
static int file = -1;
static struct entry* window;
static uint64_t in_window;
#define MOST_IMAGES 1000
#define PER_WINDOW (LOG_WINDOW / sizeof(struct entry))

static uint64_t now_ns(void) {
  struct timespec now;
  CALL2(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void* map(uint64_t offset, uint64_t size) {
  const long at = CALL6(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, offset);
  return at < 0 ? NULL : (void*)at;
}

// The next stretch of the file. Windows hold whole entries and begin at whole pages: what is left
// over at their ends stays empty.
static int next_window(void) {
  const uint64_t number = page_log->entries / PER_WINDOW;
  const uint64_t begin = PAGE_SIZE + number * LOG_WINDOW;
  if (window) CALL2(SYS_munmap, window, LOG_WINDOW);
  window = NULL;
  if (CALL2(SYS_ftruncate, file, begin + LOG_WINDOW) < 0) return 0;
  // Memory of a file that has no room is only missed when it is written to.
  if (CALL6(SYS_fallocate, file, 0, begin, LOG_WINDOW, 0, 0) < 0) return 0;
  window = map(begin, LOG_WINDOW);
  in_window = 0;
  return window != NULL;
}

int open_log(const char* folder, uint64_t active) {
  char path[4096];
  for (int image = 0; image < MOST_IMAGES && file < 0; ++image) {
    const int length = snprintf(path, sizeof path, "%s/%d.%d", folder, (int)getpid(), image);
    if (length < 0 || (size_t)length >= sizeof path) return -1;
    file = (int)CALL3(SYS_open, path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  }
  if (file < 0) return -1;
  if (CALL2(SYS_ftruncate, file, PAGE_SIZE) < 0) return -1;
  page_log = map(0, PAGE_SIZE);
  if (!page_log) return -1;
  *page_log = (struct header){.magic = PAGE_LOG_MAGIC,
                              .version = 1,
                              .active = active,
                              .begin_ticks = ticks(),
                              .begin_ns = now_ns()};
  return next_window() ? 0 : -1;
}

void add_entry(uint64_t number, uint32_t thread, uint32_t kind) {
  if (in_window == PER_WINDOW && !next_window()) in_window = PER_WINDOW;
  if (!window) {
    ++page_log->lost;
    return;
  }
  window[in_window++] = (struct entry){ticks(), number, thread, kind};
  __atomic_store_n(&page_log->entries, page_log->entries + 1, __ATOMIC_RELEASE);
}
