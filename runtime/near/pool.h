// SPDX-License-Identifier: Apache-2.0
// Where blocks go. A pool is a set of pages with one lock. Threads are dealt out to pools, and a
// page stays with the pool that took it first; a block with a hint goes to the pool of its hint, as
// nearness is what was asked for.
//
// Every function here wants the pool's lock held. Nothing here reads or writes the memory of
// blocks, so the engine runs the same code to predict where blocks would go.
#ifndef STALLSCOPE_NEAR_POOL_H
#define STALLSCOPE_NEAR_POOL_H

#include <pthread.h>

#include "page.h"
#include "stallscope_near.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { POOLS = 16, NO_LINE = PAGE_LINES };

// Where pages come from: what is known of each, and new ones.
struct page_source {
  struct page* infos;  // of page 1 first; set before a page is taken
  // A page that nobody had before, for a pool; 0 when there is none left.
  page_number (*take)(struct page_source* source, uint16_t pool);
};

struct pool {
  pthread_mutex_t lock;
  struct page_source* source;
  uint16_t number;                  // from 1
  page_number current[PAGE_KINDS];  // where new blocks of a kind are tried first
  unsigned cursor[PAGE_KINDS];      // the line of the current page that took the last one
  page_number roomy[PAGE_KINDS];    // lists of pages that are at least half empty
  page_number empty;                // list of pages of no kind
  struct ss_near_stats stats;
} __attribute__((aligned(64)));

// A place: a page and the granule where a block begins. No page means no memory.
struct place {
  page_number page;
  unsigned start;
};

// What is wanted: granules, and the granules that the beginning must be a multiple of.
struct wish {
  unsigned granules;
  unsigned step;
};

struct wish wish_for(size_t size);

// Near a line of a page; without a hint when the page is 0, or of no kind by now.
struct place pool_place(struct pool* pool, page_number page, unsigned line, struct wish wish);

// Anywhere but in the given line of a page (NO_LINE: anywhere).
struct place pool_dense(struct pool* pool, unsigned avoided, struct wish wish);

struct place pool_room(struct pool* pool, enum page_kind kind, struct wish wish);

// Returns the granules of the block; 0 when there is none.
unsigned pool_free(struct pool* pool, page_number page, unsigned start);

#ifdef __cplusplus
}
#endif

#endif
