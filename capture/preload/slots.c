// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "slots.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hot.h"
#include "log.h"
#include "pace.h"

// Places that threads left, newest last; with the lock.
static uint16_t left[HEAP_LOG_SLOTS];
static unsigned left_count;
static pthread_key_t key;
static bool has_key;

void slots_after_fork(void) { left_count = 0; }

void slots_flush(struct heap_log_hot* path) {
  uint64_t blocks = path->blocks, bytes = path->bytes;
  path->slot = path->blocks = path->bytes = 0;
  uint32_t number = path->mark & 0x7fff;
  if (blocks == 0) return;
  struct heap_log_site* site = &log_now.sites[number];
  __atomic_fetch_add(&site->blocks, blocks, __ATOMIC_RELAXED);
  __atomic_fetch_add(&site->bytes, bytes, __ATOMIC_RELAXED);
}

// What a thread knew by its stack must not be taken for true by the next one.
static void empty(struct heap_log_slot* slot) {
  for (unsigned i = 0; i < HEAP_LOG_HOT; i++)
    if (slot->hot[i].slot != 0) slots_flush(&slot->hot[i]);
}

static void leave(void* data) {
  struct heap_log_slot* slot = data;
  if (hot_self != slot || log_is_busy) return;
  hot_self = &hot_nowhere;
  pace_stop();
  log_lock();
  empty(slot);
  slot->thread = 0;
  left[left_count++] = (uint16_t)(slot - log_now.slots);
  log_unlock();
}

static bool is_gone(uint32_t thread) {
  return syscall(SYS_tgkill, getpid(), (pid_t)thread, 0) != 0 && errno == ESRCH;
}

// A thread that ended without its last words left its place taken.
static struct heap_log_slot* inherit(void) {
  for (unsigned i = 0; i < log_now.header->slots; i++)
    if (is_gone(log_now.slots[i].thread)) {
      empty(&log_now.slots[i]);
      return &log_now.slots[i];
    }
  return NULL;
}

static struct heap_log_slot* fresh(void) {
  uint32_t number = log_now.header->slots;
  if (number == HEAP_LOG_SLOTS) return NULL;
  struct heap_log_slot* slot = &log_now.slots[number];
  uint64_t at = HEAP_LOG_SLOTS_AT + number * sizeof *slot;
  if (!log_ready(at, offsetof(struct heap_log_slot, ring))) return NULL;
  memset(slot->near_region, 0xff, sizeof slot->near_region);
  __atomic_store_n(&log_now.header->slots, number + 1, __ATOMIC_RELEASE);
  return slot;
}

static struct heap_log_slot* take(void) {
  static unsigned refused;
  if (left_count > 0) return &log_now.slots[left[--left_count]];
  struct heap_log_slot* slot = fresh();
  // To ask for the dead costs a call for each; so not on every block of a thread without a place.
  return slot != NULL || refused++ % 1024 != 0 ? slot : inherit();
}

// Below this no frame of the thread's own stack ends. The C library puts a thread's control block
// at the top of its stack.
static uint64_t stack_end(uint32_t thread) {
  extern void* __libc_stack_end __attribute__((weak));
  if (thread == (uint32_t)getpid() && &__libc_stack_end != NULL) return (uint64_t)__libc_stack_end;
  return (uint64_t)__builtin_thread_pointer();
}

struct heap_log_slot* slots_self(void) {
  if (hot_self != &hot_nowhere) return hot_self;
  log_lock();
  struct heap_log_slot* slot = log_now.base ? take() : NULL;
  if (slot != NULL) {
    slot->thread = (uint32_t)syscall(SYS_gettid);
    slot->stack_end = stack_end(slot->thread);
    if (!has_key) has_key = pthread_key_create(&key, leave) == 0;
  }
  log_unlock();
  if (slot == NULL) return &hot_nowhere;
  hot_self = slot;
  pace_begin();
  log_is_busy = true;  // the C library may allocate for this
  if (has_key) pthread_setspecific(key, slot);
  log_is_busy = false;
  return slot;
}
