// SPDX-License-Identifier: Apache-2.0
// Where marks may be of blocks that are gone, since threads let blocks pass: a byte a chunk.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "heap_log_layout.h"

// Makes the table, once, and says in the log that marks are no longer all there. False when there
// is no memory for it.
bool chunks_begin(void);

bool chunks_is_clean(const void* block);

// The block is freed and its mark stays, or is taken away as ever: then false.
bool chunks_let_pass(const void* block);

// With the lock: a large block came or went.
void chunks_add_large(const void* block);
void chunks_remove_large(const void* block);

void chunks_after_fork(void);
