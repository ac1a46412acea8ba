/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The first pass over a superblock: what it holds. */
#include "instrument.h"
#include "tool.h"

struct describing {
  struct ss_block_shape* shape;
  Bool speculative;        /* behind a conditional branch that Valgrind joined over */
  Bool has_exit;           /* the instruction at hand may leave the block */
  const IRExpr* last_load; /* address of the last operation if it can still become a modify */
  Bool overflow;
};

static void add_operation(struct describing* d, UInt kind, Bool guarded, UInt size) {
  struct ss_block_shape* shape = d->shape;
  d->last_load = NULL;
  if (shape->operations == SS_MAX_OPERATIONS) {
    d->overflow = True;
    return;
  }
  struct ss_operation* op = &shape->operation[shape->operations++];
  op->instruction = shape->instructions - 1;
  op->kind = kind;
  op->guarded = guarded;
  op->size = size;
}

static void add_exit(struct ss_block_shape* shape) {
  struct ss_exit now = {shape->instructions, shape->operations};
  if (shape->exits) {
    const struct ss_exit* last = &shape->exit[shape->exits - 1];
    if (last->instructions == now.instructions && last->operations == now.operations) return;
  }
  shape->exit[shape->exits++] = now;
}

static void add_load(struct describing* d, const IRExpr* address, UInt size) {
  add_operation(d, SS_OP_KIND_LOAD, False, size);
  d->last_load = address;
}

Bool ss_same_atom(const IRExpr* a, const IRExpr* b) { return a && b && eqIRAtom(a, b); }

/* A store to where the same instruction just loaded from makes the load a modify. */
static Bool becomes_modify(struct describing* d, const IRExpr* address, UInt size) {
  struct ss_block_shape* shape = d->shape;
  if (!ss_same_atom(d->last_load, address)) return False;
  struct ss_operation* op = &shape->operation[shape->operations - 1];
  if (op->size != size || op->instruction != shape->instructions - 1) return False;
  op->kind = SS_OP_KIND_MODIFY;
  d->last_load = NULL;
  return True;
}

static void add_store(struct describing* d, const IRExpr* address, UInt size) {
  if (!becomes_modify(d, address, size)) add_operation(d, SS_OP_KIND_STORE, False, size);
}

static UInt cas_size(const IRCAS* cas, IRTypeEnv* types) {
  return sizeofIRType(typeOfIRExpr(types, cas->dataLo)) * (cas->dataHi ? 2 : 1);
}

static UInt dirty_kind(const IRDirty* dirty) {
  return dirty->mFx == Ifx_Read    ? SS_OP_KIND_LOAD
         : dirty->mFx == Ifx_Write ? SS_OP_KIND_STORE
                                   : SS_OP_KIND_MODIFY;
}

static void describe_guarded_load(struct describing* d, const IRLoadG* load) {
  IRType loaded = Ity_INVALID, widened = Ity_INVALID;
  typeOfIRLoadGOp(load->cvt, &widened, &loaded);
  add_operation(d, SS_OP_KIND_LOAD, True, sizeofIRType(loaded));
}

static Bool is_conditional_branch(Addr address, UInt length) {
  const UChar* code = (const UChar*)address;
  if (length > 2 && code[0] == 0xf2) code++; /* bnd */
  return (code[0] & 0xf0) == 0x70 || (code[0] == 0x0f && (code[1] & 0xf0) == 0x80);
}

/* Valgrind makes one block of `a && b` conditions: the second condition's code then runs always,
   with its effects undone where the first one failed. It counts as executed, as cachegrind counts
   it, and is marked. It holds neither loads nor stores nor exits. */
static void describe_instruction(struct describing* d, Addr address, UInt length) {
  struct ss_block_shape* shape = d->shape;
  d->last_load = NULL;
  if (shape->instructions == 0) shape->address = address;
  if (shape->instructions > 0 && !d->speculative && !d->has_exit) {
    ULong last = shape->instruction[shape->instructions - 1];
    d->speculative =
        is_conditional_branch(SS_INSTRUCTION_ADDRESS(last), SS_INSTRUCTION_LENGTH(last));
  }
  d->has_exit = False;
  shape->instruction[shape->instructions++] = SS_INSTRUCTION(address, length, d->speculative);
}

static void describe_statement(struct describing* d, IRStmt* st, IRTypeEnv* types) {
  switch (st->tag) {
    case Ist_IMark:
      describe_instruction(d, st->Ist.IMark.addr, st->Ist.IMark.len);
      break;
    case Ist_WrTmp:
      if (st->Ist.WrTmp.data->tag == Iex_Load)
        add_load(d, st->Ist.WrTmp.data->Iex.Load.addr,
                 sizeofIRType(st->Ist.WrTmp.data->Iex.Load.ty));
      break;
    case Ist_Store:
      if (ss_prefetched(st))
        add_operation(d, SS_OP_KIND_PREFETCH, False, 1);
      else
        add_store(d, st->Ist.Store.addr, sizeofIRType(typeOfIRExpr(types, st->Ist.Store.data)));
      break;
    case Ist_LoadG:
      describe_guarded_load(d, st->Ist.LoadG.details);
      break;
    case Ist_StoreG:
      add_operation(d, SS_OP_KIND_STORE, True,
                    sizeofIRType(typeOfIRExpr(types, st->Ist.StoreG.details->data)));
      break;
    case Ist_CAS:
      add_operation(d, SS_OP_KIND_MODIFY, False, cas_size(st->Ist.CAS.details, types));
      break;
    case Ist_Dirty:
      if (st->Ist.Dirty.details->mFx != Ifx_None)
        add_operation(d, dirty_kind(st->Ist.Dirty.details), True, st->Ist.Dirty.details->mSize);
      break;
    case Ist_Exit:
      d->has_exit = True;
      add_exit(d->shape);
      break;
    default:
      break;
  }
}

Bool ss_describe(IRSB* in, struct ss_block_shape* shape) {
  struct describing d = {.shape = shape};
  shape->instructions = shape->operations = shape->exits = 0;
  for (Int i = 0; i < in->stmts_used; i++)
    if (in->stmts[i] && (shape->instructions || in->stmts[i]->tag == Ist_IMark))
      describe_statement(&d, in->stmts[i], in->tyenv);
  add_exit(shape);
  if (d.overflow) ss_note("operations: a block has more memory operations than can be recorded");
  return shape->instructions > 0;
}
