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

  ss_word* at = ss_ring_reserve(words);
  at[0] = SS_HEAD(tag, words, thread);
  at[1] = ss_measured();
  for (UInt i = 0; i < count; i++) at[2 + i] = fields[i];
  if (has_tail) {
    at[words - 1] = 0;
    at[2 + count] = bytes;
    VG_(memcpy)(at + 3 + count, tail, bytes);
  }
  ss_ring_commit(at + words);
}

void ss_note(const HChar* text) {
  ss_word one = 1;
  ss_emit_tail(SS_NOTE, ss_current_thread(), &one, 1, text, VG_(strlen)(text));
}
