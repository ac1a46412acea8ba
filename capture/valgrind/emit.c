/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records into the ring. Only called between superblocks, when `position` is whole. */
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "tool.h"

void ss_emit(UInt tag, UInt thread, const ss_word* fields, UInt count) {
  ss_emit_tail(tag, thread, fields, count, NULL, ~0U);
}

/* `bytes` of ~0 means that the record has no tail at all. */
void ss_emit_tail(UInt tag, UInt thread, const ss_word* fields, UInt count, const void* tail,
                  UInt bytes) {
  if (!ss_ring_attached()) return;
  Bool has_tail = bytes != ~0U;
  UInt tail_words = has_tail ? 1 + (bytes + 7) / 8 : 0;
  UInt words = 2 + count + tail_words;
  tl_assert(words < SS_RING_BUFFER_WORDS - SS_RING_GUARD_WORDS);

  Bool parked = ss_ring->parked != 0;
  if (parked) ss_ring_unpark();
  if (ss_ring->position + words * 8UL > ss_ring->limit + SS_RING_GUARD_WORDS * 8UL)
    ss_ring_publish();
  if (!ss_ring_attached()) return;
  ss_word* at = (ss_word*)(Addr)ss_ring->position;
  at[0] = SS_HEAD(tag, words, thread);
  at[1] = ss_ring->executed;
  for (UInt i = 0; i < count; i++) at[2 + i] = fields[i];
  if (has_tail) {
    at[words - 1] = 0;
    at[2 + count] = bytes;
    VG_(memcpy)(at + 3 + count, tail, bytes);
  }
  __atomic_store_n(&ss_ring->position, (Addr)(at + words), __ATOMIC_RELEASE);
  if (parked) ss_ring_park();
}

void ss_note(const HChar* text) {
  ss_word one = 1;
  ss_emit_tail(SS_NOTE, ss_current_thread(), &one, 1, text, VG_(strlen)(text));
}
