// SPDX-License-Identifier: Apache-2.0
// The pages that are tracked, and the active set among them: pages that may be used without anyone
// noticing. All others are protected. A page that is used comes into the set; CLOCK chooses who
// leaves it. There are no marks of use that a program could read, so the hand protects a page that
// it passes, and whoever is used before it comes round again stays, for the price of a fault.
//
// Callers hold the lock (hold, release). Nothing here allocates or calls the C library.
#ifndef STALLSCOPE_PAGES_ACTIVE_H
#define STALLSCOPE_PAGES_ACTIVE_H

#include <stdbool.h>
#include <stdint.h>

void hold(void);
void release(void);

// `active`: pages of the set.
bool set_active(uint64_t active);
// Whole pages of a range that may be read and written are tracked from now on.
void track(uint64_t begin, uint64_t end, uint32_t kind);
// They are not any more, and may be used.
void untrack(uint64_t begin, uint64_t end);
// All of them; nothing is tracked afterwards.
void give_up(void);
// All may be used without anyone noticing, until resume(); the set is empty then.
void suspend(void);
void resume(void);
// Pages that must never be protected, as the kernel puts the frames of signal handlers there.
void pin(uint64_t begin, uint64_t end);
// A page is used: whether it was tracked.
bool use(uint64_t address, bool writes, uint32_t thread);
// The kernel uses a range of one region, until take_back() of the same thread.
void lend(uint64_t begin, uint64_t end, uint32_t thread);
void take_back(uint32_t thread);
// The end of the tracked region that the address is in; 0 when it is in none.
uint64_t tracked_until(uint64_t address);

#endif
