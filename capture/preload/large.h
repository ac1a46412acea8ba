// SPDX-License-Identifier: Apache-2.0
// Large blocks: a list of those alive, and a record of each birth and death.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "heap_log_layout.h"

void large_note(struct heap_log_slot* self, void* block, size_t size, uint32_t site,
                uint16_t* marks);

// The marks are those that large_note wrote; they are taken away. `self` may be hot_nowhere.
// Returns what the block was.
struct heap_log_live large_forget(struct heap_log_slot* self, void* block, uint16_t* marks);

void large_after_fork(void);
