/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Prefetch instructions. Valgrind's translator works out their address and then drops it, because
   nothing in a program depends on it. Its function that translates one instruction is wrapped by
   the linker (--wrap): behind a prefetch, ours adds a store of the address to a variable that
   nobody reads. The optimiser has to keep it, and where a block is instrumented the access that is
   recorded takes its place. */
#include "instrument.h"
#include "pub_tool_libcassert.h"

static ULong marker;

/* As the translator declares them, in headers of its own that Debian does not ship. */
struct translated {
  UInt length;
  UInt next;
  UInt hint;
  IRJumpKind stops; /* Ijk_INVALID where the block goes on */
};
extern struct translated __real_disInstr_AMD64(IRSB* out, const UChar* code, Long delta,
                                               Addr address, VexArch arch, const VexArchInfo* info,
                                               const VexAbiInfo* abi, VexEndness host,
                                               Bool complains);
struct translated __wrap_disInstr_AMD64(IRSB* out, const UChar* code, Long delta, Addr address,
                                        VexArch arch, const VexArchInfo* info,
                                        const VexAbiInfo* abi, VexEndness host, Bool complains);

static Bool is_prefix(UChar byte) {
  return byte == 0x26 || byte == 0x2e || byte == 0x36 || byte == 0x3e || byte == 0x64 ||
         byte == 0x65 || byte == 0x66 || byte == 0x67;
}

/* PREFETCHNTA, T0, T1 and T2 (0f 18 /0 to /3), PREFETCH and PREFETCHW (0f 0d /0 and /1). */
static Bool is_prefetch(const UChar* code) {
  while (is_prefix(*code)) code++;
  if ((*code & 0xf0) == 0x40) code++;
  if (code[0] != 0x0f || (code[1] != 0x18 && code[1] != 0x0d)) return False;
  const UInt mode = code[2] >> 6, which = code[2] >> 3 & 7;
  return mode != 3 && which <= (code[1] == 0x18 ? 3 : 1);
}

/* The address is what the instruction computes last; behind it stands the new instruction pointer,
   which the translator wants to find there. */
static void keep_address(IRSB* out, Int first) {
  const Int last = out->stmts_used - 1;
  for (Int i = last - 1; i >= first; i--) {
    const IRStmt* st = out->stmts[i];
    if (st->tag != Ist_WrTmp || typeOfIRTemp(out->tyenv, st->Ist.WrTmp.tmp) != Ity_I64) continue;
    IRStmt* const pointer = out->stmts[last];
    tl_assert(pointer->tag == Ist_Put);
    out->stmts[last] =
        IRStmt_Store(Iend_LE, mkIRExpr_HWord((HWord)&marker), IRExpr_RdTmp(st->Ist.WrTmp.tmp));
    addStmtToIRSB(out, pointer);
    return;
  }
}

struct translated __wrap_disInstr_AMD64(IRSB* out, const UChar* code, Long delta, Addr address,
                                        VexArch arch, const VexArchInfo* info,
                                        const VexAbiInfo* abi, VexEndness host, Bool complains) {
  const Int first = out->stmts_used;
  const struct translated made =
      __real_disInstr_AMD64(out, code, delta, address, arch, info, abi, host, complains);
  if (made.stops == Ijk_INVALID && is_prefetch(code + delta)) keep_address(out, first);
  return made;
}

IRExpr* ss_prefetched(const IRStmt* st) {
  if (st->tag != Ist_Store || st->Ist.Store.addr->tag != Iex_Const) return NULL;
  const IRConst* to = st->Ist.Store.addr->Iex.Const.con;
  return to->tag == Ico_U64 && to->Ico.U64 == (HWord)&marker ? st->Ist.Store.data : NULL;
}
