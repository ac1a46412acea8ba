// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>
#include <string.h>

#include "hot.h"
#include "log.h"
#include "slots.h"

// Region number + 1 in the upper half, its table in the lower; 0 in an empty entry. Read without
// the lock; entries only come.
enum { INDEX = 2 * HEAP_LOG_REGIONS, NO_TABLE = 0xffffffffu >> 1 };
static uint64_t index_of[INDEX] __attribute__((aligned(HEAP_LOG_PAGE)));

// Takes the marks of regions that got no table, and nobody reads it.
static uint16_t sink[HEAP_LOG_TABLE_BYTES / 2];

void regions_after_fork(void) { log_empty(index_of, sizeof index_of); }

static uint64_t* entry_of(uint64_t region) {
  unsigned at = (unsigned)(region * 0x9e3779b97f4a7c15u >> 40) % INDEX;
  for (;;) {
    uint64_t entry = __atomic_load_n(&index_of[at], __ATOMIC_ACQUIRE);
    if (entry == 0 || entry >> 32 == region + 1) return &index_of[at];
    at = (at + 1) % INDEX;
  }
}

static uint16_t* table_of(uint64_t entry) {
  uint32_t table = (uint32_t)entry;
  if (table == NO_TABLE) return sink;
  return (uint16_t*)(log_now.base + HEAP_LOG_TABLES_AT + (uint64_t)table * HEAP_LOG_TABLE_BYTES);
}

static uint64_t make(uint64_t region) {
  struct heap_log_header* header = log_now.header;
  uint32_t table = header->regions;
  uint64_t at = HEAP_LOG_TABLES_AT + (uint64_t)table * HEAP_LOG_TABLE_BYTES;
  bool is_made = table < HEAP_LOG_REGIONS && at + HEAP_LOG_TABLE_BYTES <= log_now.bytes &&
                 log_ready(HEAP_LOG_REGIONS_AT + 4u * table, 4) &&
                 log_ready(at, HEAP_LOG_TABLE_BYTES);
  if (!is_made) return (region + 1) << 32 | NO_TABLE;
  log_now.regions[table] = (uint32_t)region;
  __atomic_store_n(&header->regions, table + 1, __ATOMIC_RELEASE);
  return (region + 1) << 32 | table;
}

// Half the entries stay empty: that many regions without a table are remembered, then none.
static uint64_t added(uint64_t region) {
  static unsigned refused;
  log_lock();
  uint64_t* place = entry_of(region);
  uint64_t entry = *place;
  if (entry == 0) {
    entry = make(region);
    bool is_refused = (uint32_t)entry == NO_TABLE;
    if (!is_refused || refused < HEAP_LOG_REGIONS / 2)
      __atomic_store_n(place, entry, __ATOMIC_RELEASE);
    refused += is_refused;
  }
  log_unlock();
  return entry;
}

uint16_t* regions_find(const void* block) {
  uint64_t region = (uintptr_t)block >> HEAP_LOG_REGION_SHIFT;
  uint64_t entry = log_now.base ? *entry_of(region) : 0;
  if (entry == 0 || (uint32_t)entry == NO_TABLE) return NULL;
  return table_of(entry) + ((uintptr_t)block >> 4) % HEAP_LOG_REGION_MARKS;
}

uint16_t* regions_add(struct heap_log_slot* self, const void* block) {
  uint64_t region = (uintptr_t)block >> HEAP_LOG_REGION_SHIFT;
  if (region >= (uint64_t)1 << (47 - HEAP_LOG_REGION_SHIFT)) return NULL;
  uint64_t entry = *entry_of(region);
  if (entry == 0) entry = added(region);
  unsigned near = region % HEAP_LOG_NEAR;
  self->near_region[near] = ~(uint64_t)0;
  self->near_marks[near] = (uint64_t)(table_of(entry) - region * HEAP_LOG_REGION_MARKS);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  self->near_region[near] = region;
  if ((uint32_t)entry == NO_TABLE) return NULL;
  return table_of(entry) + ((uintptr_t)block >> 4) % HEAP_LOG_REGION_MARKS;
}
