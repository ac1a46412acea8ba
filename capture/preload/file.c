// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "heap_log_layout.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { MOST_IMAGES = 10000, LEAST_TABLES = 64 };

// What a child needs to know of its parent, and what is needed to open the file again.
static char folder[3000];
static char path[3100];
static struct stat made;
static uint32_t parent_pid, parent_number;
static char* mapped;

static bool has_folder(void) {
  if (folder[0] != '\0') return true;
  const char* wanted = getenv("STALLSCOPE_HEAP_LOG");
  if (wanted == NULL || wanted[0] != '/' || strlen(wanted) >= sizeof folder) return false;
  strcpy(folder, wanted);
  return true;
}

static int create(uint32_t* number) {
  for (uint32_t n = 0; n < MOST_IMAGES; n++) {
    snprintf(path, sizeof path, "%s/%d.%u", folder, (int)getpid(), n);
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    *number = n;
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

// Only addresses are taken here, no memory; but where those are limited the program needs them.
static uint64_t size_wanted(void) {
  struct rlimit space, size;
  if (getrlimit(RLIMIT_AS, &space) != 0 || getrlimit(RLIMIT_FSIZE, &size) != 0) return 0;
  uint64_t most = HEAP_LOG_FULL_BYTES;
  if (space.rlim_cur != RLIM_INFINITY && space.rlim_cur / 8 < most) most = space.rlim_cur / 8;
  // A file that is made longer than this ends the program by a signal.
  if (size.rlim_cur != RLIM_INFINITY && size.rlim_cur < most) most = size.rlim_cur;
  uint64_t least = HEAP_LOG_TABLES_AT + (uint64_t)LEAST_TABLES * HEAP_LOG_TABLE_BYTES;
  return most < least ? 0 : most / HEAP_LOG_PAGE * HEAP_LOG_PAGE;
}

// Nothing is readable at first: a program that locks all its memory would fill the whole file.
static char* map(int file, uint64_t bytes) {
  if (bytes == 0 || ftruncate(file, (off_t)bytes) != 0 || fstat(file, &made) != 0) return NULL;
  char* base = mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (base == MAP_FAILED) return NULL;
  madvise(base, bytes, MADV_DONTDUMP);
  return base;
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

char* file_make(uint64_t* bytes) {
  uint32_t number;
  if (!has_folder()) return NULL;
  int file = create(&number);
  if (file < 0) return NULL;
  *bytes = size_wanted();
  mapped = map(file, *bytes);
  close(file);
  // The header, and the sites that are there from the beginning.
  if (mapped != NULL &&
      !(file_ready(0, HEAP_LOG_PAGE) && file_ready(HEAP_LOG_SITES_AT, HEAP_LOG_PAGE))) {
    munmap(mapped, *bytes);
    mapped = NULL;
  }
  if (mapped == NULL) {
    unlink(path);
    return NULL;
  }
  struct heap_log_header* header = (struct heap_log_header*)mapped;
  header->magic = HEAP_LOG_MAGIC;
  header->version = HEAP_LOG_VERSION;
  header->file_bytes = *bytes;
  header->begun = now();
  header->pid = (uint32_t)getpid();
  header->number = number;
  header->parent_pid = parent_pid;
  header->parent_number = parent_number;
  header->sites = HEAP_LOG_UNKNOWN_SITE + 1;
  __atomic_store_n(&header->is_ready, 1, __ATOMIC_RELEASE);
  return mapped;
}

void file_leave(char* base, uint64_t bytes) {
  const struct heap_log_header* header = (const struct heap_log_header*)base;
  parent_pid = header->pid;
  parent_number = header->number;
  munmap(base, bytes);
  mapped = NULL;
}

// For kernels that cannot fill pages on request. The program may have closed our file and put
// another in its place, so it is opened anew each time.
static bool backed(uint64_t begin, uint64_t bytes) {
  int file = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return false;
  struct stat found;
  bool is_ours =
      fstat(file, &found) == 0 && found.st_dev == made.st_dev && found.st_ino == made.st_ino;
  bool done = is_ours && posix_fallocate(file, (off_t)begin, (off_t)bytes) == 0;
  close(file);
  return done;
}

bool file_ready(uint64_t begin, uint64_t bytes) {
  uint64_t first = begin / HEAP_LOG_PAGE * HEAP_LOG_PAGE;
  uint64_t length = HEAP_LOG_PAGES_OF(begin + bytes - first);
  int before = errno;
  bool done = mprotect(mapped + first, length, PROT_READ | PROT_WRITE) == 0;
  if (done && madvise(mapped + first, length, MADV_POPULATE_WRITE) != 0)
    done = errno == EINVAL && backed(first, length);
  errno = before;
  return done;
}
