// SPDX-License-Identifier: Apache-2.0
// The program's own allocator: whatever would have been called without us. Each pointer first leads
// to a function that looks all of them up.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct real {
  void* (*malloc)(size_t);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void* (*memalign)(size_t, size_t);
  void* (*aligned_alloc)(size_t, size_t);
  int (*posix_memalign)(void**, size_t, size_t);
  void* (*valloc)(size_t);
  void* (*pvalloc)(size_t);
  void (*free)(void*);
};

extern struct real real __attribute__((visibility("hidden")));

// Looks everything up, once; what the look-up itself allocates comes from pages of our own.
void real_find(void);

// Whether a block came from those pages.
bool real_is_early(const void* block);
size_t real_early_size(const void* block);
const char* real_early_begin(void);
const char* real_early_end(void);
