/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How exact the target's registers are where an instruction faults. Storing the instruction pointer
   before every access costs time, and only a handler of faults can see it: it is done from the
   moment at which the target installs one. Code that is made at run time always has it, because
   whoever makes code is likely to repair faults by their address. */
#include "pub_tool_options.h"
#include "pub_tool_vki.h"
#include "tool.h"

#define FIRST_PAGE 4096

/* The core's own, not offered to tools because it is safe only where no translation is running:
   inside a system call's wrapper, where the core itself calls it for munmap. */
extern void VG_(discard_translations)(Addr start, ULong length, const HChar* who);

void ss_precision_init(void) { VG_(clo_px_file_backed) = VexRegUpdSpAtMemAccess; }

static Bool is_fault(UWord signal) {
  return signal == VKI_SIGSEGV || signal == VKI_SIGBUS || signal == VKI_SIGFPE ||
         signal == VKI_SIGILL || signal == VKI_SIGTRAP;
}

void ss_precision_handler(UWord signal, const struct vki_sigaction_base* action) {
  if (action == NULL || !is_fault(signal)) return;
  if (action->ksa_handler == VKI_SIG_DFL || action->ksa_handler == VKI_SIG_IGN) return;
  if (VG_(clo_px_file_backed) != VexRegUpdSpAtMemAccess) return;
  VG_(clo_px_file_backed) = VexRegUpdUnwindregsAtMemAccess;
  VG_(discard_translations)(FIRST_PAGE, ~0ULL - 2 * FIRST_PAGE, "ss_precision_handler");
}
