// SPDX-License-Identifier: Apache-2.0
// Large blocks that begin at a chosen cache line of a page: blocks of malloc that are a page
// longer, and where each really begins. Every function may be called from every thread.
#ifndef STALLSCOPE_NEAR_COLOURED_H
#define STALLSCOPE_NEAR_COLOURED_H

#include <stdbool.h>
#include <stddef.h>

// Zeroed or not. NULL when there is no memory, or too many such blocks already.
void* coloured_make(size_t size, unsigned line, bool zeroed);

// The size that was asked for; 0 for every other block.
size_t coloured_size(const void* block);

// False when it is none of these.
bool coloured_free(void* block);

// Around fork().
void coloured_lock(void);
void coloured_unlock(void);

#endif
