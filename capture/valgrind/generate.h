/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The second pass over a superblock: what its parts share. */
#ifndef STALLSCOPE_GENERATE_H
#define STALLSCOPE_GENERATE_H

#include "instrument.h"
#include "tool.h"

struct writing {
  IRSB* out;
  const struct ss_block_shape* shape;
  UInt number;           /* of the first exit */
  IRTemp position;       /* where the block's head word is; STREAM only */
  IRTemp executed;       /* before this block */
  IRTemp counters;       /* COUNT only */
  UInt instructions;     /* seen so far */
  UInt operations;       /* written so far */
  UInt exit;             /* the exit that comes next */
  UInt stored_exit;      /* in the head word */
  Int stored_operations; /* as `position` says; -1 before the first store */
  Int stored_instructions;
  const IRExpr* last_load;
  UInt last_load_instruction;
  Bool overflow;   /* more operations than can be recorded */
  IRExpr* watched; /* address of the access that the statement makes; NULL for none */
  IRExpr* watched_guard;
  ULong watched_as; /* as ss_watch_access wants it */
};

static inline void put(struct writing* w, IRStmt* st) { addStmtToIRSB(w->out, st); }

static inline IRExpr* field(const ss_word* address) { return mkIRExpr_HWord((HWord)address); }

static inline IRTemp load64(struct writing* w, const ss_word* address) {
  IRTemp value = newIRTemp(w->out->tyenv, Ity_I64);
  put(w, IRStmt_WrTmp(value, IRExpr_Load(Iend_LE, Ity_I64, field(address))));
  return value;
}

static inline IRExpr* add64(struct writing* w, IRTemp base, ULong offset) {
  if (offset == 0) return IRExpr_RdTmp(base);
  IRTemp sum = newIRTemp(w->out->tyenv, Ity_I64);
  put(w, IRStmt_WrTmp(
             sum, IRExpr_Binop(Iop_Add64, IRExpr_RdTmp(base), IRExpr_Const(IRConst_U64(offset)))));
  return IRExpr_RdTmp(sum);
}

static inline void store(struct writing* w, IRExpr* address, IRExpr* value) {
  put(w, IRStmt_Store(Iend_LE, address, value));
}

#endif
