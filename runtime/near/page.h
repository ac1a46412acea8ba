// SPDX-License-Identifier: Apache-2.0
// A page of small blocks and what is known about it. A page is 512 granules of 8 bytes; all that is
// kept about it lies elsewhere, so that blocks fill whole cache lines. The byte `l` of a bitmap is
// the cache line `l` of the page.
//
// Nothing here locks: a page belongs to a pool, and callers hold that pool's lock.
#ifndef STALLSCOPE_NEAR_PAGE_H
#define STALLSCOPE_NEAR_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  PAGE_BYTES = 4096,
  GRANULE_BYTES = 8,
  LINE_BYTES = 64,
  PAGE_GRANULES = PAGE_BYTES / GRANULE_BYTES,
  LINE_GRANULES = LINE_BYTES / GRANULE_BYTES,
  PAGE_LINES = PAGE_BYTES / LINE_BYTES,
};

// What a page is for; blocks with a hint into it go into it whatever it is.
enum page_kind {
  PAGE_FREE,
  PAGE_DENSE,   // blocks without a hint, one after the other
  PAGE_ROOM_1,  // blocks with room behind them: groups of 1, 2 and 4 lines
  PAGE_ROOM_2,
  PAGE_ROOM_4,
  PAGE_OVERFLOW,  // hinted blocks whose own page is full
  PAGE_KINDS,
};

typedef uint32_t page_number;  // from 1; 0 is none

struct page {
  uint16_t pool;  // written once, before any block of the page is given out; 0 before
  uint8_t kind;
  bool listed;                         // in its pool's list of pages with much free space
  uint32_t used;                       // granules
  page_number next;                    // in a list
  page_number overflow;                // where blocks go that found no place here
  uint64_t taken[PAGE_GRANULES / 64];  // granules that belong to a block
  uint64_t last[PAGE_GRANULES / 64];   // granules that end one
};

// The first place within the lines [first, end) for a block of `granules` whose beginning is a
// multiple of `step` granules and that touches no more lines than it must; -1 when there is none.
int page_find(const struct page* page, unsigned first, unsigned end, unsigned granules,
              unsigned step);

// Whether the granules [start, start + granules) are all free.
bool page_is_free(const struct page* page, unsigned start, unsigned granules);

void page_take(struct page* page, unsigned start, unsigned granules);

// Gives a block back. Returns its granules, 0 when no block begins at `start`.
unsigned page_give_back(struct page* page, unsigned start);

// Granules of the block that begins at `start`; 0 when none does.
unsigned page_block(const struct page* page, unsigned start);

// Lines of the groups that a page of this kind is divided into.
unsigned page_group_lines(enum page_kind kind);

#ifdef __cplusplus
}
#endif

#endif
