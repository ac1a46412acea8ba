// SPDX-License-Identifier: Apache-2.0
// How much a thread logs. Every block while it allocates moderately, and while its heap grows; of
// small blocks that come and go faster than that, one in HOT_PASS_MEAN at random distances. So the
// log costs little of any program, and is exact where that is cheap.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "heap_log_layout.h"

enum {
  PACE_WINDOW = 1 << 16,  // blocks after which an exact thread is looked at
  PACE_FIRST = 4,         // windows of the process in which nothing passes
  PACE_NS = 400,          // a block in less of the thread's processor time is fast
  PACE_CHECKS = 64,       // noted blocks after which a thread that lets pass is looked at
};

// Begins with every block noted. For a thread that was just given its place.
void pace_begin(void);

// For a thread without a place: every block takes the slow way, and nothing passes.
void pace_stop(void);

// After a block was noted when its turn had come: decides which is the next.
void pace_turn(const void* block);

// How many blocks the one being noted stands for.
uint64_t pace_weight(void);

// Before the first block: whether the environment asks for every block.
void pace_read_wish(void);

void pace_after_fork(void);
