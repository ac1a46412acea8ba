// SPDX-License-Identifier: Apache-2.0
#include "coloured.h"

#include <pthread.h>
#include <stdint.h>

#include "rules.h"
#include "system.h"

enum { SLOTS = 1 << 16, MOST = SLOTS / 2 };

struct entry {
  uintptr_t block;  // 0 in an empty entry
  void* real;
  size_t size;
};

static struct entry entries[SLOTS];
static unsigned count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned home(uintptr_t block) {
  return (unsigned)(block / RULE_LINE * 0x9e3779b97f4a7c15u >> 48) % SLOTS;
}

static unsigned slot_of(uintptr_t block) {
  unsigned slot = home(block);
  while (entries[slot].block != 0 && entries[slot].block != block) slot = (slot + 1) % SLOTS;
  return slot;
}

// Closes the gap, so that a search that ends at an empty entry has seen all.
static void remove_entry(unsigned slot) {
  for (unsigned next = (slot + 1) % SLOTS; entries[next].block != 0; next = (next + 1) % SLOTS) {
    unsigned from_home = (next - home(entries[next].block)) % SLOTS;
    if (from_home < (next - slot) % SLOTS) continue;
    entries[slot] = entries[next];
    slot = next;
  }
  entries[slot].block = 0;
  __atomic_store_n(&count, count - 1, __ATOMIC_RELAXED);
}

void* coloured_make(size_t size, unsigned line, bool zeroed) {
  if (size > SIZE_MAX - RULE_PAGE || __atomic_load_n(&count, __ATOMIC_RELAXED) >= MOST) return NULL;
  // Memory that the system gave just now is zeros already, and calloc knows.
  char* real = zeroed ? system_calloc(1, size + RULE_PAGE) : system_malloc(size + RULE_PAGE);
  if (real == NULL) return NULL;
  char* block = (char*)rule_begin((uintptr_t)real, line);
  pthread_mutex_lock(&lock);
  bool full = count == MOST;
  if (!full) {
    entries[slot_of((uintptr_t)block)] = (struct entry){(uintptr_t)block, real, size};
    __atomic_store_n(&count, count + 1, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&lock);
  if (!full) return block;
  system_free(real);
  return NULL;
}

// Whoever asks about such a block made it or got it from its maker, so it sees the count with it.
static bool cannot_be(const void* block) {
  return (uintptr_t)block % RULE_LINE != 0 || __atomic_load_n(&count, __ATOMIC_RELAXED) == 0;
}

size_t coloured_size(const void* block) {
  if (block == NULL || cannot_be(block)) return 0;
  pthread_mutex_lock(&lock);
  const struct entry* entry = &entries[slot_of((uintptr_t)block)];
  size_t size = entry->block ? entry->size : 0;
  pthread_mutex_unlock(&lock);
  return size;
}

bool coloured_free(void* block) {
  if (block == NULL || cannot_be(block)) return false;
  pthread_mutex_lock(&lock);
  unsigned slot = slot_of((uintptr_t)block);
  void* real = entries[slot].block ? entries[slot].real : NULL;
  if (real) remove_entry(slot);
  pthread_mutex_unlock(&lock);
  if (real) system_free(real);
  return real != NULL;
}

void coloured_lock(void) { pthread_mutex_lock(&lock); }
void coloured_unlock(void) { pthread_mutex_unlock(&lock); }
