// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "real.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "heap_log_layout.h"
#include "hot.h"

// A region of its own, so that no thread ever has it at hand and every free of such a block takes
// the slow way, where it is known.
static char* early;
static size_t early_used;
enum { EARLY_BYTES = 1 << HEAP_LOG_REGION_SHIFT };

static __thread bool is_finding __attribute__((tls_model("initial-exec")));

static char* early_pages(void) {
  char* twice = mmap(NULL, 2 * EARLY_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (twice == MAP_FAILED) return NULL;
  char* begin = (char*)(((uintptr_t)twice + EARLY_BYTES - 1) & -(uintptr_t)EARLY_BYTES);
  if (begin > twice) munmap(twice, (size_t)(begin - twice));
  munmap(begin + EARLY_BYTES, (size_t)(twice + EARLY_BYTES - begin));
  return begin;
}

static void* early_malloc(size_t size) {
  if (early == NULL) early = early_pages();
  size_t whole = (size + 31) & ~(size_t)15;  // and room for the size in front
  if (early == NULL || size > EARLY_BYTES || early_used + whole > EARLY_BYTES) {
    errno = ENOMEM;
    return NULL;
  }
  char* block = early + early_used;
  early_used += whole;
  memcpy(block, &size, sizeof size);
  return block + 16;
}

bool real_is_early(const void* block) {
  return early != NULL && (uintptr_t)block - (uintptr_t)early < EARLY_BYTES;
}

size_t real_early_size(const void* block) {
  size_t size;
  memcpy(&size, (const char*)block - 16, sizeof size);
  return size;
}

const char* real_early_begin(void) { return early; }
const char* real_early_end(void) { return early ? early + EARLY_BYTES : NULL; }

static void* first_malloc(size_t size) {
  if (is_finding) return early_malloc(size);
  real_find();
  return real.malloc(size);
}

static void* first_calloc(size_t count, size_t size) {
  if (is_finding) return early_malloc(count * size);  // fresh pages are zeros
  real_find();
  return real.calloc(count, size);
}

static void* first_realloc(void* block, size_t size) {
  if (!is_finding) {
    real_find();
    return real.realloc(block, size);
  }
  void* made = early_malloc(size);
  if (made == NULL || !real_is_early(block)) return made;
  size_t before = real_early_size(block);
  memcpy(made, block, before < size ? before : size);
  return made;
}

static void* first_memalign(size_t alignment, size_t size) {
  if (is_finding) return NULL;
  real_find();
  return real.memalign(alignment, size);
}

static void* first_aligned_alloc(size_t alignment, size_t size) {
  real_find();
  return real.aligned_alloc(alignment, size);
}

static int first_posix_memalign(void** block, size_t alignment, size_t size) {
  real_find();
  return real.posix_memalign(block, alignment, size);
}

static void* first_valloc(size_t size) {
  real_find();
  return real.valloc(size);
}

static void* first_pvalloc(size_t size) {
  real_find();
  return real.pvalloc(size);
}

static void first_free(void* block) {
  if (is_finding || real_is_early(block)) return;
  real_find();
  real.free(block);
}

struct real real = {first_malloc,   first_calloc,        first_realloc,
                    first_memalign, first_aligned_alloc, first_posix_memalign,
                    first_valloc,   first_pvalloc,       first_free};

// Not by a name of its malloc: other allocators take all of those.
static bool is_of_c_library(const void* function) {
  Dl_info mine, of_c;
  return dladdr(function, &mine) != 0 && dladdr(dlsym(RTLD_NEXT, "getpid"), &of_c) != 0 &&
         mine.dli_fbase == of_c.dli_fbase;
}

static void* find(const char* name, void* otherwise) {
  void* found = dlsym(RTLD_NEXT, name);
  return found ? found : otherwise;
}

void real_find(void) {
  if (is_finding) return;
  is_finding = true;
  int before = errno;
  struct real all;
  all.malloc = find("malloc", real.malloc);
  all.calloc = find("calloc", real.calloc);
  all.realloc = find("realloc", real.realloc);
  all.memalign = find("memalign", real.memalign);
  all.aligned_alloc = find("aligned_alloc", real.aligned_alloc);
  all.posix_memalign = find("posix_memalign", real.posix_memalign);
  all.valloc = find("valloc", real.valloc);
  all.pvalloc = find("pvalloc", real.pvalloc);
  all.free = find("free", real.free);
  if (is_of_c_library(all.malloc)) hot_note_no_narrow();
  real = all;
  errno = before;
  is_finding = false;
}
