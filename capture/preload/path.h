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

// The number of the path whose first return address stands at `slot`; HEAP_LOG_UNKNOWN_SITE when
// none can be given. Nothing is read at or above `end` but by the unwinder. The path has at least
// its first frames afterwards.
uint32_t path_site(struct path* path, const uintptr_t* slot, const uintptr_t* end);

void path_after_fork(void);
