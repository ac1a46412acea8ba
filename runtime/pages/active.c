// SPDX-License-Identifier: Apache-2.0
#include "active.h"

#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "log.h"
#include "system.h"

#define MOST_REGIONS 8192
#define READ_WRITE (PROT_READ | PROT_WRITE)

// ASKED: in the set, but protected. PINNED: always free to be used, and in no set.
enum state { INACTIVE = 0, ASKED = 1, ACTIVE = 2, PINNED = 3 };

struct region {
  uint64_t begin, end;
  uint8_t* states;  // of its pages
  bool pinned;      // some of them are
};

static struct region regions[MOST_REGIONS];  // by address
static uint32_t count;
static uint64_t* ring;  // addresses of the pages in the set; 0: a free place
static uint64_t places, hand;
static uint32_t locked;

struct loan {
  uint64_t begin, end;
  uint32_t thread;
};
#define FEW 16        // pages
#define MOST_LENT 64  // ranges at a time, by all threads
static struct loan lent[MOST_LENT];
static uint32_t lent_count;

void hold(void) {
  while (__atomic_exchange_n(&locked, 1, __ATOMIC_ACQUIRE)) __builtin_ia32_pause();
}
void release(void) { __atomic_store_n(&locked, 0, __ATOMIC_RELEASE); }

static void* memory(uint64_t size) {
  const long at =
      CALL6(SYS_mmap, 0, size, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at < 0 ? NULL : (void*)at;
}

static void protect(uint64_t begin, uint64_t end, int how) {
  CALL3(SYS_mprotect, begin, end - begin, how);
}

// A range of one region, but for what is pinned there.
static void forbid(const struct region* region, uint64_t begin, uint64_t end) {
  protect(begin, end, PROT_NONE);
  if (!region->pinned) return;
  for (uint64_t at = begin; at < end; at += PAGE_SIZE)
    if (region->states[(at - region->begin) / PAGE_SIZE] == PINNED)
      protect(at, at + PAGE_SIZE, READ_WRITE);
}

bool set_active(uint64_t active) {
  places = active;
  ring = memory(active * sizeof *ring);
  return ring != NULL;
}

// The first region that ends behind the address.
static uint32_t first_behind(uint64_t address) {
  uint32_t low = 0, high = count;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (regions[middle].end > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static struct region* find(uint64_t address) {
  const uint32_t at = first_behind(address);
  return at < count && regions[at].begin <= address ? &regions[at] : NULL;
}

static uint8_t* state_of(const struct region* region, uint64_t address) {
  return &region->states[(address - region->begin) / PAGE_SIZE];
}

uint64_t tracked_until(uint64_t address) {
  const struct region* region = find(address);
  return region ? region->end : 0;
}

void track(uint64_t begin, uint64_t end, uint32_t kind) {
  begin = (begin + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE;
  end = end / PAGE_SIZE * PAGE_SIZE;
  if (begin >= end || count == MOST_REGIONS) return;
  untrack(begin, end);
  uint8_t* states = memory((end - begin) / PAGE_SIZE);
  if (!states) return;
  const uint32_t at = first_behind(begin);
  for (uint32_t i = count++; i > at; --i) regions[i] = regions[i - 1];
  regions[at] = (struct region){begin, end, states, false};
  add_entry(begin / PAGE_SIZE, (uint32_t)((end - begin) / PAGE_SIZE), ENTRY_REGION | kind << 8);
  protect(begin, end, PROT_NONE);
}

static void leave(uint64_t begin, uint64_t end) {
  for (uint64_t i = 0; i < places; ++i)
    if (ring[i] >= begin && ring[i] < end) ring[i] = 0;
}

static void remove_at(uint32_t at) {
  CALL2(SYS_munmap, regions[at].states, (regions[at].end - regions[at].begin) / PAGE_SIZE);
  --count;
  for (uint32_t i = at; i < count; ++i) regions[i] = regions[i + 1];
}

// A region of which only a part goes is given up as a whole: what is left of it would need tables
// of its own, and programs hardly do that to what they still use.
void untrack(uint64_t begin, uint64_t end) {
  for (uint32_t at = first_behind(begin); at < count && regions[at].begin < end;) {
    protect(regions[at].begin, regions[at].end, READ_WRITE);
    leave(regions[at].begin, regions[at].end);
    remove_at(at);
  }
}

void pin(uint64_t begin, uint64_t end) {
  for (uint64_t at = begin / PAGE_SIZE * PAGE_SIZE; at < end; at += PAGE_SIZE) {
    struct region* region = find(at);
    if (!region) continue;
    region->pinned = true;
    *state_of(region, at) = PINNED;
    protect(at, at + PAGE_SIZE, READ_WRITE);
  }
}

void give_up(void) { untrack(0, UINT64_MAX); }

void suspend(void) {
  for (uint32_t i = 0; i < count; ++i) protect(regions[i].begin, regions[i].end, READ_WRITE);
}

void resume(void) {
  for (uint64_t i = 0; i < places; ++i) ring[i] = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t pages = (regions[i].end - regions[i].begin) / PAGE_SIZE;
    for (uint64_t page = 0; page < pages; ++page)
      if (regions[i].states[page] != PINNED) regions[i].states[page] = INACTIVE;
    forbid(&regions[i], regions[i].begin, regions[i].end);
  }
}

// A free place in the ring: the hand goes round until it finds a page that nobody used since it was
// asked about.
static uint64_t* make_place(void) {
  for (;;) {
    uint64_t* const place = &ring[hand];
    hand = hand + 1 == places ? 0 : hand + 1;
    if (*place == 0) return place;
    const struct region* region = find(*place);
    if (!region) return place;
    uint8_t* state = state_of(region, *place);
    if (*state == PINNED) return place;
    if (*state == ASKED) {
      *state = INACTIVE;
      return place;
    }
    *state = ASKED;
    protect(*place, *place + PAGE_SIZE, PROT_NONE);
  }
}

bool use(uint64_t address, bool writes, uint32_t thread) {
  const struct region* region = find(address);
  if (!region) return false;
  const uint64_t page = address / PAGE_SIZE * PAGE_SIZE;
  uint8_t* state = state_of(region, page);
  if (*state >= ACTIVE) return true;  // somebody else was faster
  if (*state == INACTIVE) {
    ++page_log->faults;
    add_entry(page / PAGE_SIZE, thread, writes ? ENTRY_WRITE : ENTRY_READ);
    *make_place() = page;
  } else {
    ++page_log->soft_faults;
  }
  *state = ACTIVE;
  protect(page, page + PAGE_SIZE, READ_WRITE);
  return true;
}

// A few pages come into the set like others. More than that are logged, but only lent: they would
// drive each other out before the call is done.
void lend(uint64_t begin, uint64_t end, uint32_t thread) {
  begin = begin / PAGE_SIZE * PAGE_SIZE;
  end = (end + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE;
  if (end - begin <= FEW * PAGE_SIZE && places > 4 * FEW) {
    for (uint64_t at = begin; at < end; at += PAGE_SIZE) use(at, false, thread);
    return;
  }
  const struct region* region = find(begin);
  if (!region || lent_count == MOST_LENT) return;
  for (uint64_t at = begin; at < end; at += PAGE_SIZE)
    if (*state_of(region, at) == INACTIVE) {
      ++page_log->faults;
      add_entry(at / PAGE_SIZE, thread, ENTRY_READ);
    }
  lent[lent_count++] = (struct loan){begin, end, thread};
  protect(begin, end, READ_WRITE);
}

// What was lent is protected again; of it, pages of the set stay there, to be asked about.
void take_back(uint32_t thread) {
  for (uint32_t i = 0; i < lent_count;) {
    const struct loan loan = lent[i];
    if (loan.thread != thread) {
      ++i;
      continue;
    }
    lent[i] = lent[--lent_count];
    const struct region* region = find(loan.begin);
    if (!region || region->end < loan.end) continue;
    forbid(region, loan.begin, loan.end);
    for (uint64_t at = loan.begin; at < loan.end; at += PAGE_SIZE)
      if (*state_of(region, at) == ACTIVE) *state_of(region, at) = ASKED;
  }
}
