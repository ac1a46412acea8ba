// SPDX-License-Identifier: Apache-2.0
// The assist thread. It shares the program's memory but is a task of its own, with signal handlers
// and files of its own: what it does wrong ends at worst itself, the program can neither wait for
// it nor signal it by accident, and it goes when the program does.
//
// It has the program's thread-local storage, so nothing here calls the C library.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "layout.h"

#define STACK_SIZE (64u << 10)
#define GUARD 4096u
#define ASLEEP_NS 20000000  // at most, with nothing to do: then it looks whether the program lives
#define IDLE_NS 50000       // when the program has been elsewhere for so many turns
#define IDLE_TURNS 20000
#define MOST_PAUSES 200  // without progress of the program: it has left the trace

static char *assist_stack, *signal_stack;
static struct ahead_slot* running;

static long call(long number, long a, long b, long c, long d) {
  register long r10 __asm__("r10") = d;
  long answer;
  __asm__ volatile("syscall"
                   : "=a"(answer)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return answer;
}

// Until stallscope calls: looking often would cost the program, which shares a processor's caches
// and a hypervisor with this thread. Not private, as the caller is another process.
static void sleep_until_called(uint32_t calls) {
  struct timespec time = {0, ASLEEP_NS};
  call(SYS_futex, (long)&ahead->calls, FUTEX_WAIT, calls, (long)&time);
}

static void rest(void) {
  struct timespec time = {0, IDLE_NS};
  call(SYS_nanosleep, (long)&time, 0, 0, 0);
}

static uint64_t* word(struct ahead_slot* slot, unsigned offset) {
  return (uint64_t*)(slot->data + offset);
}

// A fault of the slice: it comes back by its own way out, which restores the stack.
static void on_fault(int signal, siginfo_t* info, void* raw) {
  (void)signal;
  (void)info;
  ucontext_t* context = raw;
  if (running == NULL) call(SYS_exit, 1, 0, 0, 0);
  running->faults++;
  *word(running, DATA_REASON) = REASON_FAULT;
  context->uc_mcontext.gregs[REG_RIP] = (greg_t)running->leave;
}

struct kernel_action {
  void (*handler)(int, siginfo_t*, void*);
  unsigned long flags;
  void (*restorer)(void);
  uint64_t mask;
};

__asm__(
    ".pushsection .text\n"
    "ahead_restorer:\n"
    "  mov $15, %eax\n"  // rt_sigreturn
    "  syscall\n"
    ".popsection\n");
extern void ahead_restorer(void) __attribute__((visibility("hidden")));

static void catch_own_faults(void) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  struct kernel_action action = {on_fault, SA_SIGINFO | SA_ONSTACK | SA_NODEFER | 0x04000000,
                                 ahead_restorer, 0};
  for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
    call(SYS_rt_sigaction, signals[i], (long)&action, 0, 8);
  stack_t other = {.ss_sp = signal_stack, .ss_size = STACK_SIZE};
  call(SYS_sigaltstack, (long)&other, 0, 0, 0);
}

static uint64_t value_of(const struct ahead_slot* slot, int32_t number) {
  return number < 0 ? 0 : slot->hand[number];
}

// Copies what the slice keeps of memory; a fault here is one of the slice.
static void prime(struct ahead_slot* slot) {
  for (int i = 0; i < 16; i++) word(slot, DATA_REGISTERS)[i] = slot->hand[i];
  for (uint32_t i = 0; i < slot->cell_count && i < AHEAD_CELLS; i++) {
    const struct ahead_cell* cell = &slot->cells[i];
    const char* from =
        (const char*)(value_of(slot, cell->base) + value_of(slot, cell->index) * cell->scale +
                      (uint64_t)cell->displacement);
    for (uint32_t byte = 0; byte < cell->size; byte++)
      ((volatile char*)cell->place)[byte] = from[byte];
  }
  *word(slot, DATA_FLAGS) = 0x202;
  *word(slot, DATA_RESUME) = slot->start;
}

// Waits while the slice is more than `slack` ahead; whether the program still comes along.
static int keep_pace(struct ahead_slot* slot, uint64_t done) {
  uint64_t last = slot->runs;
  int idle = 0;
  for (;;) {
    uint64_t main_runs = __atomic_load_n(&slot->runs, __ATOMIC_RELAXED);
    if (!slot->armed || ahead->stop) return 0;
    if (done < main_runs) {
      // A little behind, it runs through lines that are there already, and catches up.
      if (done + slot->chunk >= main_runs) return 1;
      slot->behind++;
      return 0;
    }
    if (done - main_runs <= slot->slack) return 1;
    idle = main_runs == last ? idle + 1 : 0;
    last = main_runs;
    if (idle > MOST_PAUSES) return 0;
    slot->pauses++;
    for (uint32_t i = 0; i < slot->pause; i++) __builtin_ia32_pause();
  }
}

static void run(struct ahead_slot* slot) {
  uint64_t done = slot->at_hand;
  slot->visits++;
  running = slot;
  prime(slot);
  for (;;) {
    *word(slot, DATA_LEFT) = slot->chunk;
    ((void (*)(void))slot->enter)();
    uint64_t made = slot->chunk - *word(slot, DATA_LEFT);
    done += made;
    slot->ahead_runs += made;
    if (*word(slot, DATA_REASON) != REASON_CHUNK) {
      slot->off++;
      break;
    }
    if (!keep_pace(slot, done)) break;
  }
  running = NULL;
}

static int assist(void* unused) {
  (void)unused;
  call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
  call(SYS_close_range, 0, ~0u, 0, 0);
  // Only on a processor that nobody else wants.
  struct sched_param nothing = {0};
  call(SYS_sched_setscheduler, 0, SCHED_IDLE, (long)&nothing, 0);
  catch_own_faults();
  uint32_t idle = 0;
  while (!ahead->stop) {
    uint32_t calls = __atomic_load_n(&ahead->calls, __ATOMIC_ACQUIRE);
    int armed = 0;
    idle++;
    for (int i = 0; i < AHEAD_SLOTS; i++) {
      struct ahead_slot* slot = &ahead->slots[i];
      if (!__atomic_load_n(&slot->armed, __ATOMIC_ACQUIRE)) continue;
      armed = 1;
      if (!__atomic_load_n(&slot->handed, __ATOMIC_ACQUIRE)) continue;
      run(slot);
      __atomic_store_n(&slot->handed, 0, __ATOMIC_RELEASE);
      __atomic_store_n(&slot->want, 1, __ATOMIC_RELEASE);
      idle = 0;
    }
    if (!armed)
      sleep_until_called(calls);
    else if (idle > IDLE_TURNS)
      rest();
    else
      __builtin_ia32_pause();
    if ((uint32_t)call(SYS_getppid, 0, 0, 0, 0) != ahead->owner) break;
  }
  call(SYS_exit, 0, 0, 0, 0);
  return 0;
}

// Its stack, below that the one of its signal handlers, and below each a page that nobody may
// touch: a slice that needs more than there is faults instead of writing into the program's memory.
void ahead_start_assist(void) {
  char* room = mmap(NULL, 2 * (STACK_SIZE + GUARD), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return;
  signal_stack = room + GUARD;
  assist_stack = signal_stack + STACK_SIZE + GUARD;
  if (mprotect(signal_stack, STACK_SIZE, PROT_READ | PROT_WRITE) != 0 ||
      mprotect(assist_stack, STACK_SIZE, PROT_READ | PROT_WRITE) != 0)
    return;
  int made = clone(assist, assist_stack + STACK_SIZE, CLONE_VM | CLONE_FS, NULL);
  if (made > 0) ahead->assist = (uint32_t)made;
}
