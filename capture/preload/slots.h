// SPDX-License-Identifier: Apache-2.0
// Threads' places in the log, and regions' tables of marks.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "heap_log_layout.h"

// The calling thread's place, taken now if it has none; `hot_nowhere` when there is none left.
struct heap_log_slot* slots_self(void);
void slots_after_fork(void);

// Adds an entry's counts to its site's and empties it.
void slots_flush(struct heap_log_hot* path);

// Where the marks of a block are; NULL when its region has no table. `regions_add` makes one where
// it can and puts the region at the thread's hand.
uint16_t* regions_find(const void* block);
uint16_t* regions_add(struct heap_log_slot* self, const void* block);
void regions_after_fork(void);
