// SPDX-License-Identifier: Apache-2.0
// The file of this process image, and who may write where in it. Every part is made ready before
// it is first touched: the file is sparse, and where memory for it runs out that is noticed here,
// not by a signal in the program.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap_log_layout.h"

struct log {
  char* base;  // NULL while there is no log
  struct heap_log_header* header;
  struct heap_log_site* sites;
  struct heap_log_live* live;
  struct heap_log_slot* slots;
  uint32_t* regions;
  uint64_t bytes;
};

extern struct log log_now __attribute__((visibility("hidden")));

// One lock for everything that is slow. Not to be taken by a thread that has it: a signal handler
// that allocates finds `log_is_busy` and does without.
extern __thread bool log_is_busy __attribute__((tls_model("initial-exec")));
void log_lock(void);
void log_unlock(void);

// With the lock held: makes a part of the file writable and backed by memory. False when there is
// none left.
bool log_ready(uint64_t begin, uint64_t bytes);

// Begins a log for this process image when the environment asks for one and there is none yet.
void log_begin(void);

// Sets whole pages of ours to zeros without touching them.
void log_empty(void* pages, uint64_t bytes);

static inline void log_count(uint64_t* counter) {
  if (log_now.base != NULL) __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}
