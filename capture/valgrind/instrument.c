/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Generated code. Two passes over a superblock: the first describes it, the second writes it out
   with our statements in between. Everything is stored inline; the only calls are the rare ones
   that switch buffers or measuring.

   What is written takes effect at an exit, and only there: `position`, `executed` and the counters
   are stored just before each exit statement whose values differ from what was stored last. A fault
   in the middle of a block leaves no half of it behind. */
#include "instrument.h"

#include "generate.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_options.h"

static IRDirty* call(struct writing* w, const HChar* name, void (*helper)(void)) {
  IRDirty* dirty = unsafeIRDirty_0_N(0, name, VG_(fnptr_to_fnentry)(helper), mkIRExprVec_0());
  put(w, IRStmt_Dirty(dirty));
  return dirty;
}

/* Calls `helper` when low < high, unsigned. */
static void call_when_below(struct writing* w, IRTemp low, IRTemp high, const HChar* name,
                            void (*helper)(void)) {
  IRTemp guard = newIRTemp(w->out->tyenv, Ity_I1);
  put(w, IRStmt_WrTmp(guard, IRExpr_Binop(Iop_CmpLT64U, IRExpr_RdTmp(low), IRExpr_RdTmp(high))));
  call(w, name, helper)->guard = IRExpr_RdTmp(guard);
}

static Bool is_entry_of(Addr address, const HChar* function) {
  const HChar* name;
  return function && VG_(get_fnname_if_entry)(VG_(current_DiEpoch)(), address, &name) &&
         VG_(strcmp)(name, function) == 0;
}

static void write_switches(struct writing* w) {
  if (is_entry_of(w->shape->address, ss_options.to)) call(w, "ss_measure_to", ss_measure_to);
  if (is_entry_of(w->shape->address, ss_options.from)) call(w, "ss_measure_from", ss_measure_from);
  if (ss_options.skip || ss_options.max) {
    IRTemp executed = load64(w, &ss_ring->executed);
    IRTemp stop_at = load64(w, &ss_ring->stop_at);
    IRTemp guard = newIRTemp(w->out->tyenv, Ity_I1);
    put(w, IRStmt_WrTmp(guard,
                        IRExpr_Binop(Iop_CmpLE64U, IRExpr_RdTmp(stop_at), IRExpr_RdTmp(executed))));
    call(w, "ss_measure_limit", ss_measure_limit)->guard = IRExpr_RdTmp(guard);
  }
}

/* Behind the addresses of all operations of the block there is room for their values, so that these
   lie at the same place whichever exit is taken. */
static UInt gap(const struct writing* w) { return ss_options.values ? w->shape->operations : 0; }

static IRExpr* head(const struct writing* w, UInt exit, UInt operations) {
  return IRExpr_Const(IRConst_U64(SS_BLOCK_HEAD(w->number + exit, gap(w) + operations)));
}

static void write_entry(struct writing* w) {
  write_switches(w);
  if (ss_options.watch) {
    IRTemp none = newIRTemp(w->out->tyenv, Ity_I64);
    put(w, IRStmt_WrTmp(none, IRExpr_Const(IRConst_U64(0))));
    call_when_below(w, none, load64(w, &ss_watch_waiting), "ss_watch_flush", ss_watch_flush);
  }
  if (ss_options.stream) {
    IRTemp position = load64(w, &ss_ring->position);
    IRTemp limit = load64(w, &ss_ring->limit);
    call_when_below(w, limit, position, "ss_ring_next_buffer", ss_ring_next_buffer);
    w->position = load64(w, &ss_ring->position);
    store(w, IRExpr_RdTmp(w->position), head(w, 0, w->shape->exit[0].operations));
  } else {
    w->counters = load64(w, &ss_ring->counters);
  }
  w->executed = load64(w, &ss_ring->executed);
}

static void write_counter(struct writing* w) {
  IRTemp old = newIRTemp(w->out->tyenv, Ity_I64);
  IRExpr* address = add64(w, w->counters, (w->number + w->exit) * 8ULL);
  put(w, IRStmt_WrTmp(old, IRExpr_Load(Iend_LE, Ity_I64, address)));
  store(w, address, add64(w, old, 1));
}

/* Makes what the block did so far count, before an exit that may be taken here. */
static void write_exit(struct writing* w) {
  const struct ss_exit* exits = w->shape->exit;
  UInt exit = w->exit;
  if (exits[exit].instructions != w->instructions || exits[exit].operations != w->operations)
    exit = ++w->exit;
  tl_assert(exits[exit].instructions == w->instructions && exits[exit].operations == w->operations);
  Bool moved = w->stored_instructions != (Int)w->instructions;
  if (ss_options.stream) {
    if (w->stored_exit != exit) store(w, IRExpr_RdTmp(w->position), head(w, exit, w->operations));
    if (w->stored_operations != (Int)w->operations)
      store(w, field(&ss_ring->position),
            add64(w, w->position, 8ULL * (1 + gap(w) + w->operations)));
  } else if (moved || w->stored_exit != exit || w->stored_operations < 0) {
    write_counter(w);
  }
  if (moved) store(w, field(&ss_ring->executed), add64(w, w->executed, w->instructions));
  w->stored_exit = exit;
  w->stored_operations = w->operations;
  w->stored_instructions = w->instructions;
}

static void write_address(struct writing* w, IRExpr* address, IRExpr* guard) {
  w->last_load = NULL;
  w->overflow = w->operations == w->shape->operations;
  if (w->overflow) return;
  UInt index = w->operations++;
  if (!ss_options.stream) return;
  if (guard) {
    IRTemp wide = newIRTemp(w->out->tyenv, Ity_I64);
    put(w,
        IRStmt_WrTmp(wide, IRExpr_ITE(guard, address, IRExpr_Const(IRConst_U64(SS_NO_ADDRESS)))));
    address = IRExpr_RdTmp(wide);
  }
  store(w, add64(w, w->position, 8ULL * (1 + index)), address);
}

/* The access will be looked at when it has happened. */
static void watch(struct writing* w, IRExpr* address, UInt kind, UInt size, IRExpr* guard) {
  if (!ss_options.watch && !ss_options.values) return;
  w->watched = address;
  w->watched_guard = guard;
  w->watched_as = size | (ULong)kind << 32;
}

/* The operation that was written last. */
static void watch_last(struct writing* w, IRExpr* address, IRExpr* guard) {
  static const UChar kinds[] = {1, 2, 3}; /* of SS_OP_KIND_LOAD, STORE, MODIFY */
  if (!w->operations) return;
  const struct ss_operation* last = &w->shape->operation[w->operations - 1];
  watch(w, address, kinds[last->kind], last->size, guard);
}

static void write_watch_call(struct writing* w) {
  const ULong code = SS_INSTRUCTION_ADDRESS(w->shape->instruction[w->instructions - 1]);
  IRDirty* dirty = unsafeIRDirty_0_N(
      3, "ss_watch_access", VG_(fnptr_to_fnentry)(ss_watch_access),
      mkIRExprVec_3(w->watched, mkIRExpr_HWord(w->watched_as), mkIRExpr_HWord(code)));
  if (w->watched_guard) dirty->guard = w->watched_guard;
  put(w, IRStmt_Dirty(dirty));
}

/* What lies there now, up to eight bytes. */
static IRExpr* value_at(struct writing* w, IRExpr* address, UInt size) {
  static const struct {
    UInt size;
    IRType type;
    IROp widen;
  } ways[] = {{8, Ity_I64, Iop_INVALID},
              {4, Ity_I32, Iop_32Uto64},
              {2, Ity_I16, Iop_16Uto64},
              {1, Ity_I8, Iop_8Uto64}};
  UInt way = 0;
  while (way < 3 && ways[way].size > size) way++;
  IRTemp found = newIRTemp(w->out->tyenv, ways[way].type);
  put(w, IRStmt_WrTmp(found, IRExpr_Load(Iend_LE, ways[way].type, address)));
  if (way == 0) return IRExpr_RdTmp(found);
  IRTemp wide = newIRTemp(w->out->tyenv, Ity_I64);
  put(w, IRStmt_WrTmp(wide, IRExpr_Unop(ways[way].widen, IRExpr_RdTmp(found))));
  return IRExpr_RdTmp(wide);
}

/* Of the operation that was written last; what did not happen has none. */
static void write_value(struct writing* w) {
  static const ss_word nothing = 0;
  if (!ss_options.values || w->overflow) return;
  IRExpr* address = w->watched;
  if (w->watched_guard) {
    IRTemp there = newIRTemp(w->out->tyenv, Ity_I64);
    put(w, IRStmt_WrTmp(there, IRExpr_ITE(w->watched_guard, address, field(&nothing))));
    address = IRExpr_RdTmp(there);
  }
  UInt index = w->operations - 1;
  IRExpr* value = value_at(w, address, w->shape->operation[index].size);
  store(w, add64(w, w->position, 8ULL * (1 + gap(w) + index)), value);
}

static void write_watch(struct writing* w) {
  if (!w->watched) return;
  write_value(w);
  if (ss_options.watch) write_watch_call(w);
  w->watched = NULL;
}

static void write_load(struct writing* w, IRExpr* address) {
  write_address(w, address, NULL);
  if (w->operations && w->shape->operation[w->operations - 1].kind == SS_OP_KIND_LOAD)
    watch_last(w, address, NULL); /* what writes too is looked at then */
  w->last_load = address;
  w->last_load_instruction = w->instructions;
}

static void write_store(struct writing* w, IRExpr* address) {
  const struct ss_operation* last = w->operations ? &w->shape->operation[w->operations - 1] : NULL;
  if (ss_same_atom(w->last_load, address) && last->kind == SS_OP_KIND_MODIFY &&
      w->last_load_instruction == w->instructions) {
    w->last_load = NULL;
    watch_last(w, address, NULL);
    return;
  }
  write_address(w, address, NULL);
  watch_last(w, address, NULL);
}

/* Its value is 0: it reads nothing, and there may be nothing to be read. */
static void write_prefetch(struct writing* w, IRExpr* address) {
  write_address(w, address, NULL);
  if (ss_options.values && !w->overflow)
    store(w, add64(w, w->position, 8ULL * (gap(w) + w->operations)), IRExpr_Const(IRConst_U64(0)));
}

/* Ours come before the statement, so that a faulting one is never counted. */
static void write_statement(struct writing* w, IRStmt* st) {
  IRExpr* prefetched = ss_prefetched(st);
  if (prefetched) {
    write_prefetch(w, prefetched);
    return;
  }
  switch (st->tag) {
    case Ist_IMark:
      w->instructions++;
      w->last_load = NULL;
      break;
    case Ist_WrTmp:
      if (st->Ist.WrTmp.data->tag == Iex_Load) write_load(w, st->Ist.WrTmp.data->Iex.Load.addr);
      break;
    case Ist_Store:
      write_store(w, st->Ist.Store.addr);
      break;
    case Ist_LoadG:
      write_address(w, st->Ist.LoadG.details->addr, st->Ist.LoadG.details->guard);
      watch_last(w, st->Ist.LoadG.details->addr, st->Ist.LoadG.details->guard);
      break;
    case Ist_StoreG:
      write_address(w, st->Ist.StoreG.details->addr, st->Ist.StoreG.details->guard);
      watch_last(w, st->Ist.StoreG.details->addr, st->Ist.StoreG.details->guard);
      break;
    case Ist_CAS:
      write_address(w, st->Ist.CAS.details->addr, NULL);
      watch_last(w, st->Ist.CAS.details->addr, NULL);
      break;
    case Ist_Dirty:
      if (st->Ist.Dirty.details->mFx != Ifx_None) {
        write_address(w, st->Ist.Dirty.details->mAddr, st->Ist.Dirty.details->guard);
        watch_last(w, st->Ist.Dirty.details->mAddr, st->Ist.Dirty.details->guard);
      }
      break;
    case Ist_Exit:
      write_exit(w);
      break;
    default:
      break;
  }
  put(w, st);
  write_watch(w);
}

static struct ss_block_shape shape;

IRSB* ss_instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                    const VexGuestExtents* extents, const VexArchInfo* arch, IRType guest_word,
                    IRType host_word) {
  if (ss_in_preload(closure->readdr)) return in;
  ss_join_vector_puts(in);
  if (!ss_describe(in, &shape)) return in;
  struct writing w = {.out = deepCopyIRSBExceptStmts(in), .shape = &shape};
  w.number = ss_block_number(&shape);
  w.stored_operations = w.stored_instructions = -1;
  Int i = 0;
  for (; i < in->stmts_used && in->stmts[i]->tag != Ist_IMark; i++) put(&w, in->stmts[i]);
  write_entry(&w);
  for (; i < in->stmts_used; i++)
    if (in->stmts[i]) write_statement(&w, in->stmts[i]);
  write_exit(&w);
  return w.out;
}
