// SPDX-License-Identifier: Apache-2.0
// The addresses that pages come from: one reservation, so that whether an address is ours is two
// comparisons and needs no lock. Memory is made accessible a stretch at a time.
#ifndef STALLSCOPE_NEAR_REGION_H
#define STALLSCOPE_NEAR_REGION_H

#include "pool.h"

// Gives out pages of zeros. Any thread.
struct page_source* region_source(void);

// The page of an address; 0 when it is not in the region or belongs to no pool yet. Any thread.
page_number region_page(const void* address);

struct page* region_info(page_number number);
char* region_memory(page_number number);

// Around fork(): the child must find no lock held by a thread that it does not have.
void region_lock(void);
void region_unlock(void);

#endif
