/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STALLSCOPE_INSTRUMENT_H
#define STALLSCOPE_INSTRUMENT_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

IRSB* ss_instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                    const VexGuestExtents* extents, const VexArchInfo* arch, IRType guest_word,
                    IRType host_word);

/* Rewrites a block, before it is instrumented, to do the same faster. */
void ss_join_vector_puts(IRSB* block);

/* prefetch.c: the address that a statement stands for as a prefetch; NULL for all others. */
IRExpr* ss_prefetched(const IRStmt* st);

/* describe.c */
struct ss_block_shape;
Bool ss_describe(IRSB* in, struct ss_block_shape* shape); /* False: nothing to record in it */
Bool ss_same_atom(const IRExpr* a, const IRExpr* b);

#endif
