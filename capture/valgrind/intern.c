/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "intern.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"

#define FIRST_SLOTS 4096

static ULong fold(ULong hash, ULong word) {
  hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
  return hash ^ hash >> 32;
}

/* A multiply and a fold for each 8 bytes. */
ULong ss_hash(ULong seed, const void* data, UWord bytes) {
  const UChar* at = data;
  /* Folded in, or it would cancel out against data that begins with it. */
  ULong hash = fold(bytes * 0x9e3779b97f4a7c15ULL, seed);
  for (; bytes >= 8; at += 8, bytes -= 8) hash = fold(hash, *(const ULong*)at);
  if (bytes > 0) {
    ULong word = 0;
    VG_(memcpy)(&word, at, bytes);
    hash = fold(hash, word);
  }
  return hash ? hash : 1;
}

static UWord find(const struct ss_intern* table, ULong hash) {
  UWord slot = hash & (table->slots - 1);
  while (table->hashes[slot] && table->hashes[slot] != hash) slot = (slot + 1) & (table->slots - 1);
  return slot;
}

static void grow(struct ss_intern* table) {
  struct ss_intern old = *table;
  table->slots = old.slots ? old.slots * 2 : FIRST_SLOTS;
  table->hashes = VG_(calloc)("ss.intern", table->slots, sizeof(ULong));
  table->numbers = VG_(calloc)("ss.intern", table->slots, sizeof(UInt));
  for (UWord i = 0; i < old.slots; i++) {
    if (!old.hashes[i]) continue;
    UWord slot = find(table, old.hashes[i]);
    table->hashes[slot] = old.hashes[i];
    table->numbers[slot] = old.numbers[i];
  }
  if (old.slots) {
    VG_(free)(old.hashes);
    VG_(free)(old.numbers);
  }
}

UInt* ss_intern(struct ss_intern* table, ULong hash, Bool* fresh) {
  if (table->used * 2 >= table->slots) grow(table);
  UWord slot = find(table, hash);
  *fresh = table->hashes[slot] == 0;
  if (*fresh) {
    table->hashes[slot] = hash;
    table->used++;
  }
  return &table->numbers[slot];
}
