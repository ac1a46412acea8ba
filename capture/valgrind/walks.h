/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Stack walks that need not be done again. A program asks for memory from the same few places, and
   finding out from where takes longer than all else that is done for a block.

   What a walk finds follows from where it begins (instruction and stack pointer, at times the frame
   pointer), the unwinding rules of the code, and the words that it reads: return addresses, and
   frame pointers that were saved. So a walk is remembered with those words; while they are what
   they were, it would find the same. */
#ifndef STALLSCOPE_WALKS_H
#define STALLSCOPE_WALKS_H

#include "pub_tool_basics.h"

#define SS_MAX_FRAMES 24

struct ss_walk_key {
  Addr ip, sp, caller;
  ThreadId tid;
  UInt epoch; /* of the rules */
};
struct ss_walk {
  struct ss_walk_key key;
  UInt result;
  UChar state; /* of enum ss_walk_state */
  UChar disproved;
  Bool needs_fp;
  UChar words;
  Addr fp;
  struct {
    const Addr* at;
    Addr value;
  } word[2 * SS_MAX_FRAMES + 1];
};

/* Where a walk that begins here is kept; whether its result is known, and still true. */
Bool ss_walk_known(ThreadId tid, struct ss_walk** walk);
/* What a walk found out: `frames`, `sps` and `fps` are as VG_(get_StackTrace) gave them. */
void ss_walk_learn(struct ss_walk* walk, const Addr* frames, const Addr* sps, const Addr* fps,
                   UInt count, UInt result);

#endif
