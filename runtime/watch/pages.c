// SPDX-License-Identifier: Apache-2.0
// Ranges by page protection: an access to a page that holds one traps, the page is opened for that
// instruction alone, and what it did to the ranges is looked at. The kernel does not fault on
// protected pages, it refuses: so it hands every system call to us first, and pages are open while
// one is made.
//
// Left out: an access that begins in front of a range and only reads it; what other threads do
// while a page is open. Stacks are not watched.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "../pages/system.h"
#include "watch.h"

#define PAGE 4096ul
#define DISPATCH 59  // PR_SET_SYSCALL_USER_DISPATCH
#define BLOCK 1
#define STEP 0x100  // trap flag

static volatile char selector;
static bool stepping, in_call;
static uint64_t fault_address;
static bool fault_writes;
static uint64_t values[WATCH_RANGES];  // of each range, before

static void protect(int how) {
  for (uint32_t i = 0; i < watch_count; ++i) {
    const uint64_t first = watch_ranges[i].start / PAGE * PAGE;
    const uint64_t last = (watch_ranges[i].end - 1) / PAGE * PAGE;
    if (i > 0 && first == (watch_ranges[i - 1].end - 1) / PAGE * PAGE && first == last) continue;
    CALL3(SYS_mprotect, first, last - first + PAGE, how);
  }
}
static int closed(void) {
  for (uint32_t i = 0; i < watch_count; ++i)
    if (watch_ranges[i].kind & WATCH_READS) return PROT_NONE;
  return PROT_READ;
}

static bool is_watched_page(uint64_t address) {
  const uint64_t page = address / PAGE;
  for (uint32_t i = 0; i < watch_count; ++i)
    if (page >= watch_ranges[i].start / PAGE && page <= (watch_ranges[i].end - 1) / PAGE)
      return true;
  return false;
}

static void remember(void) {
  for (uint32_t i = 0; i < watch_count; ++i)
    values[i] = watch_value(watch_ranges[i].start, watch_ranges[i].end - watch_ranges[i].start);
}

static void on_fault(int number, siginfo_t* info, void* context) {
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  const uint64_t address = (uint64_t)info->si_addr;
  const bool writes = registers[REG_ERR] & 2;
  if (past_fault(address, writes, context)) return;
  if (!is_watched_page(address)) {
    signal(number, SIG_DFL);  // it happens again, and ends the program
    return;
  }
  protect(PROT_READ | PROT_WRITE);
  remember();
  stepping = true;
  fault_address = address;
  fault_writes = writes;
  registers[REG_EFL] |= STEP;
}

// After the instruction or the call that pages were opened for.
static void look(void* context) {
  bool any = false;
  for (uint32_t i = 0; i < watch_count; ++i) {
    const struct watch_range* range = &watch_ranges[i];
    const uint64_t value = watch_value(range->start, range->end - range->start);
    const bool at_it = !in_call && fault_address >= range->start && fault_address < range->end;
    if (!at_it && value == values[i]) continue;
    const bool wrote = value != values[i] || fault_writes;
    const uint32_t kind = wrote ? WATCH_WRITES : WATCH_READS;
    any = true;
    if (range->kind & kind)
      watch_hit(range, at_it ? fault_address : range->start, kind | (in_call ? WATCH_KERNEL : 0), 0,
                context);
  }
  if (!in_call) watch_log->false_hits += !any;
}

static void on_step(int number, siginfo_t* info, void* context) {
  (void)number, (void)info;
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)STEP;
  if (past_stepping()) past_stepped();
  if (!stepping && !in_call) return;
  look(context);
  stepping = in_call = false;
  if (watch_count > 0) protect(closed());
}

// Calls are made when the handler has returned, by code of ours that the kernel lets pass.
static void on_call(int number, siginfo_t* info, void* context) {
  (void)number;
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  if (info->si_code != 2) return;
  const long call = registers[REG_RAX];
  const greg_t back = registers[REG_RIP];
  if (call == SYS_rt_sigreturn) {
    registers[REG_RIP] = (greg_t)own_restorer;
  } else if (call == SYS_clone || call == SYS_clone3 || call == SYS_vfork) {
    *(call == SYS_clone    ? &own_clone_return
      : call == SYS_clone3 ? &own_clone3_return
                           : &own_vfork_return) = (uint64_t)back;
    registers[REG_RIP] = (greg_t)(call == SYS_clone    ? own_clone
                                  : call == SYS_clone3 ? own_clone3
                                                       : own_vfork);
  } else {
    protect(PROT_READ | PROT_WRITE);
    remember();
    in_call = true;
    registers[REG_RSP] -= OWN_STEP + 8;
    *(greg_t*)registers[REG_RSP] = back;
    registers[REG_RIP] = (greg_t)own_pass;
    registers[REG_EFL] |= STEP;
  }
}

struct kernel_action {
  void* handler;
  unsigned long flags;
  void (*restorer)(void);
  unsigned long mask;
};

static void install(int number, void (*handler)(int, siginfo_t*, void*)) {
  struct kernel_action action = {(void*)handler, SA_SIGINFO | 0x04000000, own_restorer, 0};
  CALL6(SYS_rt_sigaction, number, &action, 0, 8, 0, 0);
}

bool watch_pages(void) {
  install(SIGSEGV, on_fault);
  install(SIGTRAP, on_step);
  if (watch_count == 0) return true;
  install(SIGSYS, on_call);
  const uint64_t size = (uint64_t)(__stop_own_calls - __start_own_calls);
  if (CALL6(SYS_prctl, DISPATCH, 1, __start_own_calls, size, &selector, 0) != 0) return false;
  protect(closed());
  selector = BLOCK;
  return true;
}
