// SPDX-License-Identifier: Apache-2.0
// C++'s operators new and delete, and jemalloc's own functions. Those of the C++ library call
// malloc and free, which log: here they are passed on. Those of an allocator do not, and are logged
// here; where an operator of the program's own calls malloc after all, the block is noted once.
//
// Their real signatures differ in what follows the first argument; all of it is in registers, and
// passed on as it came.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hot.h"
#include "real.h"

#define EXPORT __attribute__((visibility("default")))
#define SLOT ((const uintptr_t*)__builtin_dwarf_cfa() - 1)

typedef void* (*maker)(size_t, size_t, const void*);
typedef void (*ender)(void*, size_t, size_t);

struct operator{
  void* next;  // NULL until it was looked for
  bool logs;
};

static bool is_of_cxx_library(const void* function) {
  Dl_info info;
  if (dladdr(function, &info) == 0 || info.dli_fname == NULL) return false;
  return strstr(info.dli_fname, "libstdc++") != NULL || strstr(info.dli_fname, "libc++") != NULL;
}

// A C program that loads a C++ plugin has no C++ library where RTLD_NEXT looks.
static void* in_loaded_library(const char* name) {
  static const char* const libraries[] = {"libstdc++.so.6", "libc++.so.1"};
  for (unsigned i = 0; i < 2; i++) {
    void* library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
    void* found = library ? dlsym(library, name) : NULL;
    if (library != NULL) dlclose(library);
    if (found != NULL) return found;
  }
  return NULL;
}

static void find(struct operator* operator, const char* name, void* otherwise) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == NULL) found = in_loaded_library(name);
  operator->logs = found != NULL && !is_of_cxx_library(found);
  __atomic_store_n(&operator->next, found ? found : otherwise, __ATOMIC_RELEASE);
}

// Of a C++ library that we cannot find: what every one of them does, until memory ends.
static void* plain_new(size_t size, size_t a, const void* b) {
  (void)a, (void)b;
  void* block = malloc(size ? size : 1);
  if (block == NULL) abort();
  return block;
}

static void* plain_new_or_null(size_t size, size_t a, const void* b) {
  (void)a, (void)b;
  return malloc(size ? size : 1);
}

static void* plain_aligned_new(size_t size, size_t alignment, const void* b) {
  (void)b;
  void* block = NULL;
  if (posix_memalign(&block, alignment < 8 ? 8 : alignment, size ? size : 1) != 0) abort();
  return block;
}

static void plain_delete(void* block, size_t a, size_t b) {
  (void)a, (void)b;
  free(block);
}

#define NEW(name, otherwise)                                                                    \
  EXPORT void* name(size_t size, size_t a, const void* b);                                      \
  void* name(size_t size, size_t a, const void* b) {                                            \
    static struct operator operator;                                                            \
    if (UNLIKELY(operator.next == NULL)) find(&operator, #name, otherwise);                     \
    if (LIKELY(!operator.logs || hot_passes(size))) return ((maker) operator.next)(size, a, b); \
    return slow_note_once(((maker) operator.next)(size, a, b), size, SLOT);                     \
  }

#define DELETE(name)                                                           \
  EXPORT void name(void* block, size_t a, size_t b);                           \
  void name(void* block, size_t a, size_t b) {                                 \
    static struct operator operator;                                           \
    if (UNLIKELY(operator.next == NULL)) find(&operator, #name, plain_delete); \
    if (UNLIKELY(operator.logs) && !hot_forget(block)) return;                 \
    ((ender) operator.next)(block, a, b);                                      \
  }

NEW(_Znwm, plain_new)
NEW(_Znam, plain_new)
NEW(_ZnwmRKSt9nothrow_t, plain_new_or_null)
NEW(_ZnamRKSt9nothrow_t, plain_new_or_null)
NEW(_ZnwmSt11align_val_t, plain_aligned_new)
NEW(_ZnamSt11align_val_t, plain_aligned_new)
NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, plain_aligned_new)
NEW(_ZnamSt11align_val_tRKSt9nothrow_t, plain_aligned_new)
DELETE(_ZdlPv)
DELETE(_ZdaPv)
DELETE(_ZdlPvm)
DELETE(_ZdaPvm)
DELETE(_ZdlPvRKSt9nothrow_t)
DELETE(_ZdaPvRKSt9nothrow_t)
DELETE(_ZdlPvSt11align_val_t)
DELETE(_ZdaPvSt11align_val_t)
DELETE(_ZdlPvmSt11align_val_t)
DELETE(_ZdaPvmSt11align_val_t)
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t)
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t)
