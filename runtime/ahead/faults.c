// SPDX-License-Identifier: Apache-2.0
// Faults of inline prefetch code never reach the program: a handler sends control to the landing
// behind that code. All others go to the program's own handler, as if this one were not there.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <ucontext.h>

#include "layout.h"

typedef int (*sigaction_fn)(int, const struct sigaction*, struct sigaction*);

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE};
#define SIGNALS (sizeof signals / sizeof *signals)
static struct sigaction program_action[SIGNALS];
static int catching;

static int number_of(int signal) {
  for (unsigned i = 0; i < SIGNALS; i++)
    if (signals[i] == signal) return (int)i;
  return -1;
}

static sigaction_fn real_sigaction(void) {
  static sigaction_fn found;
  if (found == NULL) found = (sigaction_fn)dlsym(RTLD_NEXT, "sigaction");
  return found;
}

static int lands(ucontext_t* context) {
  uint64_t at = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
  uint32_t count = __atomic_load_n(&ahead->net_count, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < count && i < AHEAD_NETS; i++) {
    const struct ahead_net* net = &ahead->nets[i];
    if (at < net->begin || at >= net->end) continue;
    context->uc_mcontext.gregs[REG_RIP] = (greg_t)net->landing;
    __atomic_fetch_add(&ahead->caught, 1, __ATOMIC_RELAXED);
    return 1;
  }
  return 0;
}

static void on_fault(int signal, siginfo_t* info, void* context) {
  // si_code says whether an instruction did it or somebody sent it.
  if (info->si_code > 0 && lands(context)) return;
  struct sigaction action = program_action[number_of(signal)];
  if (action.sa_flags & SA_SIGINFO) {
    action.sa_sigaction(signal, info, context);
  } else if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN) {
    action.sa_handler(signal);
  } else if (action.sa_handler == SIG_IGN && info->si_code <= 0) {
    return;
  } else {
    // The default: the instruction faults again, or the signal is sent again, and ends us.
    struct sigaction plain = {.sa_handler = SIG_DFL};
    real_sigaction()(signal, &plain, NULL);
    if (info->si_code <= 0) raise(signal);
  }
}

static int install(int signal, const struct sigaction* like) {
  struct sigaction ours = *like;
  ours.sa_sigaction = on_fault;
  ours.sa_flags = (ours.sa_flags | SA_SIGINFO) & ~SA_RESETHAND;
  return real_sigaction()(signal, &ours, NULL);
}

void ahead_catch_faults(void) {
  for (unsigned i = 0; i < SIGNALS; i++) {
    real_sigaction()(signals[i], NULL, &program_action[i]);
    struct sigaction like = {.sa_flags = SA_ONSTACK};
    install(signals[i], &like);
  }
  catching = 1;
}

__attribute__((visibility("default"))) int sigaction(int signal, const struct sigaction* action,
                                                     struct sigaction* before) {
  int number = number_of(signal);
  if (number < 0 || !catching) return real_sigaction()(signal, action, before);
  struct sigaction known = program_action[number];
  if (action != NULL) {
    struct sigaction like = *action;
    program_action[number] = *action;
    if (install(signal, &like) != 0) {
      program_action[number] = known;
      return -1;
    }
  }
  if (before != NULL) *before = known;
  return 0;
}

__attribute__((visibility("default"))) sighandler_t signal(int number, sighandler_t handler) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;
  sigemptyset(&action.sa_mask);
  return sigaction(number, &action, &before) != 0 ? SIG_ERR : before.sa_handler;
}
