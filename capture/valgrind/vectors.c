/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Valgrind translates a scalar load into a vector register as two stores to the register's place in
   memory: zeroes, then the low part. The 16-byte read that usually follows cannot be forwarded from
   two stores and waits for both to reach the cache, about 15 cycles. Joined into one store, a plain
   matrix multiplication is recorded in half the time, faster than Valgrind runs it with no tool.

   The register holds its old value instead of zero while the load runs, which nothing can see but a
   handler of that load's own fault; Valgrind promises it no vector registers there either. */
#include "instrument.h"

static Bool sets_zero(const IRStmt* st) {
  if (st->tag != Ist_Put || st->Ist.Put.data->tag != Iex_Const) return False;
  const IRConst* value = st->Ist.Put.data->Iex.Const.con;
  return value->tag == Ico_V128 && value->Ico.V128 == 0;
}

static IROp widening(IRType type) {
  return type == Ity_I64 ? Iop_64UtoV128 : type == Ity_I32 ? Iop_32UtoV128 : Iop_INVALID;
}

static Bool leaves_registers_alone(const IRStmt* st) {
  return st->tag == Ist_WrTmp && st->Ist.WrTmp.data->tag != Iex_Get &&
         st->Ist.WrTmp.data->tag != Iex_GetI;
}

/* The statement that sets the low part of the register that statement `zero` clears, or -1. */
static Int low_part_after(const IRSB* block, Int zero) {
  Int at = zero + 1;
  while (at < block->stmts_used && leaves_registers_alone(block->stmts[at])) at++;
  if (at == block->stmts_used) return -1;
  const IRStmt* st = block->stmts[at];
  Bool fits = st->tag == Ist_Put && st->Ist.Put.offset == block->stmts[zero]->Ist.Put.offset &&
              widening(typeOfIRExpr(block->tyenv, st->Ist.Put.data)) != Iop_INVALID;
  return fits ? at : -1;
}

void ss_join_vector_puts(IRSB* block) {
  for (Int zero = 0; zero < block->stmts_used; zero++) {
    Int low = sets_zero(block->stmts[zero]) ? low_part_after(block, zero) : -1;
    if (low < 0) continue;
    Int offset = block->stmts[zero]->Ist.Put.offset;
    IRExpr* part = block->stmts[low]->Ist.Put.data;
    IRTemp whole = newIRTemp(block->tyenv, Ity_V128);
    IROp widen = widening(typeOfIRExpr(block->tyenv, part));
    for (Int i = zero; i < low - 1; i++) block->stmts[i] = block->stmts[i + 1];
    block->stmts[low - 1] = IRStmt_WrTmp(whole, IRExpr_Unop(widen, part));
    block->stmts[low] = IRStmt_Put(offset, IRExpr_RdTmp(whole));
  }
}
