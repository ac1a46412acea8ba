// SPDX-License-Identifier: Apache-2.0
// Tracks the pages that a program uses, by protection alone: preloaded, in a native run. Large
// private mappings (malloc makes them too), what the heap grows by, and large static data are
// tracked; stacks and files are not.
//
// The kernel does not fault on protected pages, it refuses: so it hands every system call to us
// first (syscall user dispatch), and what its arguments point to is used before it is carried out.
// The same way we learn of mappings that come and go.
//
// Left out: children are not followed. Memory that a rare system call only reaches through another
// pointer is not seen beforehand, and the kernel answers EFAULT. Stacks that a program makes in
// tracked memory end it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "active.h"
#include "log.h"
#include "system.h"

#define LARGE (64u << 10)  // bytes of a mapping that is worth it
#define DISPATCH 59        // PR_SET_SYSCALL_USER_DISPATCH
#define BLOCK 1

struct kernel_action {
  void* handler;
  unsigned long flags;
  void (*restorer)(void);
  unsigned long mask;
};
#define RESTORER 0x04000000

static __thread volatile char selector __attribute__((tls_model("initial-exec")));
static __thread char armed __attribute__((tls_model("initial-exec")));
static __thread uint32_t thread_number __attribute__((tls_model("initial-exec")));
static struct kernel_action theirs[2];  // for SIGSEGV and SIGSYS
static uint32_t suspended_by;           // the thread that waits for a child that shares its memory
static bool dispatches;
static uint64_t heap_end;

static void arm(void) {
  thread_number = (uint32_t)CALL1(SYS_gettid, 0);
  armed = 1;
  if (!dispatches) return;
  const uint64_t size = (uint64_t)(__stop_own_calls - __start_own_calls);
  CALL6(SYS_prctl, DISPATCH, 1, __start_own_calls, size, &selector, 0);
  selector = BLOCK;
}

static void pass_on(int number, siginfo_t* info, void* context) {
  struct kernel_action* own = &theirs[number == SIGSYS];
  if (own->handler && own->handler != (void*)SIG_IGN) {
    if (own->flags & SA_SIGINFO)
      ((void (*)(int, siginfo_t*, void*))own->handler)(number, info, context);
    else
      ((void (*)(int))own->handler)(number);
    return;
  }
  struct kernel_action usual = {.handler = (void*)SIG_DFL};
  CALL6(SYS_rt_sigaction, number, &usual, 0, 8, 0,
        0);  // it happens again, and ends the program
}

static void on_fault(int number, siginfo_t* info, void* context) {
  const greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  if (!armed) arm();
  hold();
  take_back(thread_number);
  const bool ours = use((uint64_t)info->si_addr, registers[REG_ERR] & 2, thread_number);
  release();
  if (!ours) pass_on(number, info, context);
}

static bool is_large(long begin, uint64_t size, long protection, long flags) {
  return begin >= 0 && size >= LARGE && (protection & (PROT_READ | PROT_WRITE)) == 3 &&
         !(protection & PROT_EXEC) && (flags & MAP_ANONYMOUS) && (flags & MAP_PRIVATE) &&
         !(flags & (MAP_STACK | MAP_GROWSDOWN));
}

// Whatever the kernel is about to use is used, or lent: a range of tracked memory.
static void hand_out(uint64_t begin, uint64_t size) {
  const uint64_t end = tracked_until(begin);
  if (size < 256) size = 256;  // structures
  if (end) lend(begin, size < end - begin ? begin + size : end, thread_number);
}

static void hand_out_parts(const struct iovec* parts, long count) {
  hand_out((uint64_t)parts, (uint64_t)count * sizeof *parts);
  for (long i = 0; i < count && i < 1024; ++i)
    hand_out((uint64_t)parts[i].iov_base, parts[i].iov_len);
}

// What the arguments point to, as far as the argument behind says, and what that points to where
// that is known.
static void hand_out_arguments(long number, const long* a) {
  if (number == SYS_madvise) return;
  for (int i = 0; i < 6; ++i)
    hand_out((uint64_t)a[i], i < 5 && a[i + 1] > 0 ? (uint64_t)a[i + 1] : 1);
  // From here on pointers are followed: what they point to was handed out before.
  if (number == SYS_sigaltstack && a[0]) {
    const stack_t* stack = (const stack_t*)a[0];
    pin((uint64_t)stack->ss_sp, (uint64_t)stack->ss_sp + stack->ss_size);
  }
  if (number == SYS_readv || number == SYS_writev || number == SYS_preadv || number == SYS_pwritev)
    hand_out_parts((const struct iovec*)a[1], a[2]);
  if (number == SYS_sendmsg || number == SYS_recvmsg) {
    const struct msghdr* message = (const struct msghdr*)a[1];
    hand_out((uint64_t)message->msg_name, message->msg_namelen);
    hand_out((uint64_t)message->msg_control, message->msg_controllen);
    hand_out_parts(message->msg_iov, (long)message->msg_iovlen);
  }
}

// Memory comes and goes: these calls never wait, so that they can be made here.
static bool is_about_memory(long number) {
  return number == SYS_mmap || number == SYS_munmap || number == SYS_mremap || number == SYS_brk ||
         number == SYS_mprotect;
}

static long change_memory(long number, const long* a) {
  const uint64_t begin = (uint64_t)a[0], size = (uint64_t)a[1];
  if (number == SYS_munmap || number == SYS_mprotect || number == SYS_mremap ||
      (number == SYS_mmap && (a[3] & MAP_FIXED)))
    untrack(begin, begin + size);
  if (number == SYS_brk && begin && begin < heap_end) untrack(begin, heap_end);
  const long answer = own_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (number == SYS_mmap && is_large(answer, size, a[2], a[3]))
    track((uint64_t)answer, (uint64_t)answer + size, REGION_MAPPING);
  if (number == SYS_mremap && answer > 0 && (uint64_t)a[2] >= LARGE)
    track((uint64_t)answer, (uint64_t)answer + (uint64_t)a[2], REGION_MAPPING);
  if (number == SYS_brk && answer > 0) {
    if ((uint64_t)answer > heap_end) track(heap_end, (uint64_t)answer, REGION_HEAP);
    heap_end = (uint64_t)answer;
  }
  return answer;
}

// Signals that are ours are never blocked, and their handlers only seem to change.
#define OURS (1ul << (SIGSEGV - 1) | 1ul << (SIGSYS - 1))

static long change_action(const long* a) {
  struct kernel_action* own = &theirs[a[0] == SIGSYS];
  const struct kernel_action then = *own;
  if (a[1]) *own = *(const struct kernel_action*)a[1];
  if (a[2]) *(struct kernel_action*)a[2] = then;
  return 0;
}

// The mask that holds when our handler returns.
static long change_mask(const long* a, unsigned long* mask) {
  const unsigned long then = *mask, set = a[1] ? *(const unsigned long*)a[1] : 0;
  if (a[3] != 8) return -EINVAL;
  if (a[1] && a[0] == SIG_BLOCK) *mask |= set;
  if (a[1] && a[0] == SIG_UNBLOCK) *mask &= ~set;
  if (a[1] && a[0] == SIG_SETMASK) *mask = set;
  *mask &= ~OURS;
  if (a[2]) *(unsigned long*)a[2] = then;
  return 0;
}

// Masks that other calls are given: a copy without our signals goes in their place.
static void change_masks(long number, greg_t* registers) {
  static __thread unsigned long mask __attribute__((tls_model("initial-exec")));
  static __thread struct kernel_action action __attribute__((tls_model("initial-exec")));
  greg_t* where = NULL;
  if (number == SYS_rt_sigsuspend) where = &registers[REG_RDI];
  if (number == SYS_ppoll) where = &registers[REG_R10];
  if (number == SYS_epoll_pwait) where = &registers[REG_R8];
  if (where && *where) {
    mask = *(const unsigned long*)*where & ~OURS;
    *where = (greg_t)&mask;
  }
  if (number == SYS_rt_sigaction && registers[REG_RSI]) {
    action = *(const struct kernel_action*)registers[REG_RSI];
    action.mask &= ~OURS;
    registers[REG_RSI] = (greg_t)&action;
  }
}

// Calls that wait, return twice or elsewhere, or replace the program cannot be made from a handler:
// they are made when it has returned, by code of ours that the kernel lets pass. It finds the way
// back on the program's stack, behind what is free to be used there; but a child that has another
// stack, or borrows ours, must not.
static void make_later(greg_t* registers) {
  const long number = registers[REG_RAX];
  const greg_t back = registers[REG_RIP];
  if (number == SYS_rt_sigreturn) {
    registers[REG_RIP] = (greg_t)own_restorer;
  } else if (number == SYS_clone) {
    own_clone_return = (uint64_t)back;
    registers[REG_RIP] = (greg_t)own_clone;
  } else if (number == SYS_clone3) {
    own_clone3_return = (uint64_t)back;
    registers[REG_RIP] = (greg_t)own_clone3;
  } else if (number == SYS_vfork) {
    own_vfork_return = (uint64_t)back;
    registers[REG_RIP] = (greg_t)own_vfork;
  } else {
    registers[REG_RSP] -= OWN_STEP + 8;
    *(greg_t*)registers[REG_RSP] = back;
    registers[REG_RIP] = (greg_t)own_pass;
  }
}

// Another program begins, in a child that shares our memory until then while we wait, or here: what
// it is told must not be protected, and such a child has no handler of ours.
static bool needs_all(const greg_t* registers) {
  const long number = registers[REG_RAX];
  if (number == SYS_execve || number == SYS_execveat) return true;
  uint64_t flags = 0;
  if (number == SYS_clone) flags = (uint64_t)registers[REG_RDI];
  if (number == SYS_clone3) {
    use((uint64_t)registers[REG_RDI], false, thread_number);
    flags = *(const uint64_t*)registers[REG_RDI];
  }
  return number == SYS_vfork || (flags & CLONE_VFORK) != 0;
}

static void on_call(int signal, siginfo_t* info, void* context) {
  ucontext_t* then = context;
  greg_t* registers = then->uc_mcontext.gregs;
  if (info->si_code != 2) return pass_on(signal, info, context);  // SYS_USER_DISPATCH
  const long number = registers[REG_RAX];
  const long a[] = {registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                    registers[REG_R10], registers[REG_R8],  registers[REG_R9]};
  hold();
  ++page_log->calls;
  take_back(thread_number);
  if (suspended_by == thread_number) {
    resume();
    suspended_by = 0;
  }
  if (needs_all(registers) && !suspended_by) {
    suspend();
    suspended_by = thread_number;
  }
  if (is_about_memory(number))
    registers[REG_RAX] = change_memory(number, a);
  else if (!suspended_by)
    hand_out_arguments(number, a);
  release();
  if (is_about_memory(number)) return;
  if (number == SYS_rt_sigaction && (a[0] == SIGSEGV || a[0] == SIGSYS)) {
    registers[REG_RAX] = change_action(a);
  } else if (number == SYS_rt_sigprocmask) {
    registers[REG_RAX] = change_mask(a, (unsigned long*)&then->uc_sigmask.__val[0]);
  } else {
    change_masks(number, registers);
    make_later(registers);
  }
}

static void install(int number, void (*handler)(int, siginfo_t*, void*)) {
  struct kernel_action action = {.handler = (void*)handler,
                                 .flags = SA_SIGINFO | RESTORER,
                                 .restorer = own_restorer,
                                 .mask = ~(1ul << (SIGSEGV - 1) | 1ul << (SIGSYS - 1))};
  CALL6(SYS_rt_sigaction, number, &action, &theirs[number == SIGSYS], 8, 0, 0);
}

// The program's own large data: its first object's writable part, behind what relocation protects.
static int find_data(struct dl_phdr_info* info, size_t size, void* unused) {
  (void)size, (void)unused;
  uint64_t relocated = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO)
      relocated = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &info->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || !(part->p_flags & PF_W) || part->p_memsz < LARGE) continue;
    uint64_t begin = info->dlpi_addr + part->p_vaddr, end = begin + part->p_memsz;
    if (relocated > begin && relocated <= end) begin = relocated;
    hold();
    track(begin, end, REGION_STATIC);
    release();
  }
  return 1;
}

static int (*real_create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
struct start {
  void* (*run)(void*);
  void* with;
};

static void* run_armed(void* given) {
  const struct start start = *(struct start*)given;
  free(given);
  arm();
  return start.run(start.with);
}

__attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                          const pthread_attr_t* attributes,
                                                          void* (*run)(void*), void* with) {
  if (!real_create) *(void**)&real_create = dlsym(RTLD_NEXT, "pthread_create");
  struct start* start = page_log ? malloc(sizeof *start) : NULL;
  if (!start) return real_create(thread, attributes, run, with);
  *start = (struct start){run, with};
  return real_create(thread, attributes, run_armed, start);
}

// Children are not followed, and what they share with us is not theirs to write to.
static void child_of_fork(void) {
  release();  // whoever held it is not here
  hold();
  give_up();
  release();
}

__attribute__((constructor)) static void begin(void) {
  const char* folder = getenv("STALLSCOPE_PAGE_LOG");
  const char* size = getenv("STALLSCOPE_PAGE_ACTIVE");
  const uint64_t active = size ? strtoull(size, NULL, 10) : 2048;
  if (!folder || !active) return;
  if (!set_active(active) || open_log(folder, active) != 0) {
    page_log = NULL;
    return;
  }
  *(void**)&real_create = dlsym(RTLD_NEXT, "pthread_create");
  pthread_atfork(NULL, NULL, child_of_fork);
  heap_end = ((uint64_t)sbrk(0) + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE;
  install(SIGSEGV, on_fault);
  install(SIGSYS, on_call);
  dispatches = own_call(SYS_prctl, DISPATCH, 0, 0, 0, 0, 0) == 0;
  page_log->dispatch = dispatches;
  // Without it the kernel would refuse what the program reads into.
  if (!dispatches) return;
  arm();
  dl_iterate_phdr(find_data, NULL);
}

__attribute__((destructor)) static void end(void) {
  if (!page_log) return;
  struct timespec now;
  CALL2(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  page_log->end_ticks = ticks();
  page_log->end_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
