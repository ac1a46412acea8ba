// SPDX-License-Identifier: Apache-2.0
// The path of an allocation: who called whom. A path is unwound once; what is learned is how far
// apart the return addresses of each call on it lie, so that afterwards paths that are new, or are
// known at another height of the stack, are walked without unwinding.
#pragma once

#include <stdint.h>

#include "heap_log_layout.h"

struct path {
  unsigned depth;
  uint64_t frames[HEAP_LOG_FRAMES];
  const uintptr_t* slots[HEAP_LOG_FRAMES];  // where they stand
};

// `slot` holds the first return address; nothing is read at or above `end` but by the unwinder.
void path_find(struct path* path, const uintptr_t* slot, const uintptr_t* end);

// The path's number; HEAP_LOG_UNKNOWN_SITE when no more can be given.
uint32_t path_site(const struct path* path);

void path_after_fork(void);
