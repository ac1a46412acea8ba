/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Loaded into the target: wraps the functions that make and free heap blocks, and tells the tool.
   The target's own allocator does the work, so its heap looks as it does natively. This code runs
   as client code, but the tool leaves it out of stream and counts.

   A block is reported after it was made and before it is freed, so that no other thread can be seen
   to get it in between. realloc reports the old block freed first; if it fails, the report with
   address 0 gives the old one back.

   It stands in for Valgrind's own vgpreload_core, because each further library is searched at every
   symbol look-up of the dynamic linker: that alone was 0.4% of a short run of sqlite3. */
#include <stddef.h>

#include "requests.h"
#include "stallscope_records.h"
#include "valgrind.h"

typedef unsigned long word;
#define INLINE static inline __attribute__((always_inline))

/* The interpreter writes where it is to a file that does not exist; the tool listens. */
static __attribute__((noinline)) void tell_line(const struct ss_python* python) {
  int* error = python->error();
  const int before = *error;
  void* thread = python->this_thread();
  if (thread) python->dump(-1, thread);
  *error = before;
  VALGRIND_DO_CLIENT_REQUEST_STMT(SS_REQUEST_TOLD, 0, 0, 0, 0, 0);
}

/* Calls it behind the compiler's back, as Valgrind's macros call the allocator: a wrap that makes
   calls would have a larger frame, which pushes the allocator's further down the stack, into other
   lines than it has without us. */
INLINE void call_tell_line(word python) {
  void (*tell)(const struct ss_python*) = tell_line;
  __asm__ volatile(
      "movq %%rsp, %%r14\n\t"
      "subq $128, %%rsp\n\t"
      "andq $-16, %%rsp\n\t"
      "call *%%rax\n\t"
      "movq %%r14, %%rsp"
      : "+a"(tell), "+D"(python)
      :
      : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r14", "xmm0", "xmm1", "xmm2", "xmm3",
        "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
        "xmm15", "cc", "memory");
}

INLINE void* allocated(word kind, void* block, word size, void* old) {
  const word python =
      VALGRIND_DO_CLIENT_REQUEST_EXPR(0, SS_REQUEST_ALLOCATED, kind, block, size, old, 0);
  if (python) call_tell_line(python);
  return block;
}

INLINE void freed(void* block) {
  if (block) VALGRIND_DO_CLIENT_REQUEST_STMT(SS_REQUEST_FREED, block, 0, 0, 0, 0);
}

/* The shapes of the wrapped functions. */
INLINE void* make_size(OrigFn fn, word kind, word size) {
  void* block;
  CALL_FN_W_W(block, fn, size);
  return allocated(kind, block, size, NULL);
}

INLINE void* make_size_then(OrigFn fn, word kind, word size, word other) {
  void* block;
  CALL_FN_W_WW(block, fn, size, other);
  return allocated(kind, block, size, NULL);
}

INLINE void* make_size_then2(OrigFn fn, word kind, word size, word other, word another) {
  void* block;
  CALL_FN_W_WWW(block, fn, size, other, another);
  return allocated(kind, block, size, NULL);
}

INLINE void* make_aligned(OrigFn fn, word alignment, word size) {
  void* block;
  CALL_FN_W_WW(block, fn, alignment, size);
  return allocated(SS_ALLOC_KIND_ALIGNED, block, size, NULL);
}

INLINE int make_posix(OrigFn fn, void** place, word alignment, word size) {
  int error;
  CALL_FN_W_WWW(error, fn, place, alignment, size);
  if (error == 0) allocated(SS_ALLOC_KIND_ALIGNED, *place, size, NULL);
  return error;
}

INLINE void* make_array(OrigFn fn, word count, word size) {
  void* block;
  CALL_FN_W_WW(block, fn, count, size);
  return allocated(SS_ALLOC_KIND_CALLOC, block, count * size, NULL);
}

INLINE void* resized(void* block, word size, void* old) {
  if (block == NULL && size == 0) return block; /* realloc(p, 0) freed it */
  return allocated(SS_ALLOC_KIND_REALLOC, block, size, old);
}

INLINE void* resize(OrigFn fn, void* old, word size) {
  void* block;
  freed(old);
  CALL_FN_W_WW(block, fn, old, size);
  return resized(block, size, old);
}

INLINE void* resize_then(OrigFn fn, void* old, word size, word other) {
  void* block;
  freed(old);
  CALL_FN_W_WWW(block, fn, old, size, other);
  return resized(block, size, old);
}

INLINE void* resize_array(OrigFn fn, void* old, word count, word size) {
  void* block;
  freed(old);
  CALL_FN_W_WWW(block, fn, old, count, size);
  return resized(block, count * size, old);
}

INLINE void give_back(OrigFn fn, void* block) {
  freed(block);
  CALL_FN_v_W(fn, block);
}

INLINE void give_back_then(OrigFn fn, void* block, word other) {
  freed(block);
  CALL_FN_v_WW(fn, block, other);
}

INLINE void give_back_then2(OrigFn fn, void* block, word other, word another) {
  freed(block);
  CALL_FN_v_WWW(fn, block, other, another);
}

#define WRAP(result, library, name, parameters, body)        \
  result I_WRAP_SONAME_FNNAME_ZU(library, name) parameters;  \
  result I_WRAP_SONAME_FNNAME_ZU(library, name) parameters { \
    OrigFn fn;                                               \
    VALGRIND_GET_ORIG_FN(fn);                                \
    return body;                                             \
  }
#define WRAP_FREE(library, name, parameters, body)         \
  void I_WRAP_SONAME_FNNAME_ZU(library, name) parameters;  \
  void I_WRAP_SONAME_FNNAME_ZU(library, name) parameters { \
    OrigFn fn;                                             \
    VALGRIND_GET_ORIG_FN(fn);                              \
    body;                                                  \
  }

#define MALLOC_FAMILY(library)                                                             \
  WRAP(void*, library, malloc, (word n), make_size(fn, SS_ALLOC_KIND_MALLOC, n))           \
  WRAP(void*, library, calloc, (word n, word m), make_array(fn, n, m))                     \
  WRAP(void*, library, realloc, (void* p, word n), resize(fn, p, n))                       \
  WRAP(void*, library, reallocarray, (void* p, word n, word m), resize_array(fn, p, n, m)) \
  WRAP(void*, library, memalign, (word a, word n), make_aligned(fn, a, n))                 \
  WRAP(void*, library, aligned_alloc, (word a, word n), make_aligned(fn, a, n))            \
  WRAP(int, library, posix_memalign, (void** p, word a, word n), make_posix(fn, p, a, n))  \
  WRAP(void*, library, valloc, (word n), make_size(fn, SS_ALLOC_KIND_ALIGNED, n))          \
  WRAP(void*, library, pvalloc, (word n), make_size(fn, SS_ALLOC_KIND_ALIGNED, n))         \
  WRAP_FREE(library, free, (void* p), give_back(fn, p))                                    \
  WRAP_FREE(library, cfree, (void* p), give_back(fn, p))

#define ANY_NEW(library, letter, kind)                                                        \
  WRAP(void*, library, _Zn##letter##m, (word n), make_size(fn, kind, n))                      \
  WRAP(void*, library, _Zn##letter##mRKSt9nothrow_t, (word n, word t),                        \
       make_size_then(fn, kind, n, t))                                                        \
  WRAP(void*, library, _Zn##letter##mSt11align_val_t, (word n, word a),                       \
       make_size_then(fn, kind, n, a))                                                        \
  WRAP(void*, library, _Zn##letter##mSt11align_val_tRKSt9nothrow_t, (word n, word a, word t), \
       make_size_then2(fn, kind, n, a, t))

#define ANY_DELETE(library, letter)                                                               \
  WRAP_FREE(library, _Zd##letter##Pv, (void* p), give_back(fn, p))                                \
  WRAP_FREE(library, _Zd##letter##Pvm, (void* p, word n), give_back_then(fn, p, n))               \
  WRAP_FREE(library, _Zd##letter##PvRKSt9nothrow_t, (void* p, word t), give_back_then(fn, p, t))  \
  WRAP_FREE(library, _Zd##letter##PvSt11align_val_t, (void* p, word a), give_back_then(fn, p, a)) \
  WRAP_FREE(library, _Zd##letter##PvmSt11align_val_t, (void* p, word n, word a),                  \
            give_back_then2(fn, p, n, a))                                                         \
  WRAP_FREE(library, _Zd##letter##PvSt11align_val_tRKSt9nothrow_t, (void* p, word a, word t),     \
            give_back_then2(fn, p, a, t))

#define NEW_FAMILY(library)                    \
  ANY_NEW(library, w, SS_ALLOC_KIND_NEW)       \
  ANY_NEW(library, a, SS_ALLOC_KIND_NEW_ARRAY) \
  ANY_DELETE(library, l)                       \
  ANY_DELETE(library, a)

#define JEMALLOC_FAMILY(library)                                                                  \
  WRAP(void*, library, mallocx, (word n, word f), make_size_then(fn, SS_ALLOC_KIND_MALLOC, n, f)) \
  WRAP(void*, library, rallocx, (void* p, word n, word f), resize_then(fn, p, n, f))              \
  WRAP_FREE(library, dallocx, (void* p, word f), give_back_then(fn, p, f))                        \
  WRAP_FREE(library, sdallocx, (void* p, word n, word f), give_back_then2(fn, p, n, f))

/* Z-encoded sonames: libc.so*, libstdc++*, libc++*, libjemalloc*, libtcmalloc*; NONE is an object
   without a soname, so an executable that brings its allocator along. */
MALLOC_FAMILY(libcZdsoZa)
MALLOC_FAMILY(libjemallocZa)
MALLOC_FAMILY(libtcmallocZa)
MALLOC_FAMILY(NONE)
NEW_FAMILY(libstdcZpZpZa)
NEW_FAMILY(libcZpZpZa)
NEW_FAMILY(libjemallocZa)
NEW_FAMILY(libtcmallocZa)
NEW_FAMILY(NONE)
JEMALLOC_FAMILY(libjemallocZa)
JEMALLOC_FAMILY(NONE)

/* The target sees the environment that it has natively: without what Valgrind put there for us. */
INLINE int begins(const char* text, const char* with) {
  while (*with)
    if (*text++ != *with++) return 0;
  return 1;
}

INLINE int is_ours(const char* path, const char* end) {
  const char* name = path;
  for (const char* at = path; at < end; at++)
    if (*at == '/') name = at + 1;
  return begins(name, "vgpreload_");
}

/* Takes our paths out of a colon-separated list, in place; how many others there were. Also an
   empty one counts: Valgrind adds ours to a variable that the target's user set to nothing. */
static word without_ours(char* list) {
  char* out = list;
  const char* at = list;
  for (word left = 0;; at++) {
    const char* end = at;
    while (*end && *end != ':') end++;
    if (is_ours(at, end)) {
      at = end;
    } else {
      if (left++) *out++ = ':';
      while (at < end) *out++ = *at++;
    }
    if (*at) continue;
    *out = 0;
    return left;
  }
}

__attribute__((constructor)) static void clean_environment(int argc, char** argv, char** envp) {
  char** out = envp;
  (void)argc;
  (void)argv;
  for (char** at = envp; *at; at++) {
    if (begins(*at, "VALGRIND_LIB=") || begins(*at, "VALGRIND_LAUNCHER=")) continue;
    if (begins(*at, "LD_PRELOAD=") && without_ours(*at + 11) == 0) continue;
    *out++ = *at;
  }
  *out = NULL;
}

/* What Valgrind's core expects of the library that we replace. The numbers are the core's, in none
   of its installed headers. */
enum { CORE_FREERES_DONE = 0x3029, CORE_ADD_IFUNC_TARGET = 0x3104 };
enum { FREERES_CXX = 1, FREERES_C = 2 };
extern void __libc_freeres(void) __attribute__((weak));
extern void _ZN9__gnu_cxx9__freeresEv(void) __attribute__((weak));

void _vgnU_freeres(int which);
void _vgnU_freeres(int which) {
  if ((which & FREERES_CXX) && _ZN9__gnu_cxx9__freeresEv) _ZN9__gnu_cxx9__freeresEv();
  if ((which & FREERES_C) && __libc_freeres) __libc_freeres();
  VALGRIND_DO_CLIENT_REQUEST_STMT(CORE_FREERES_DONE, 0, 0, 0, 0, 0);
}

/* Runs in place of the resolver of a wrapped indirect function, and says what it chose. */
void* _vgnU_ifunc_wrapper(void);
void* _vgnU_ifunc_wrapper(void) {
  OrigFn fn;
  void* chosen;
  VALGRIND_GET_ORIG_FN(fn);
  CALL_FN_W_v(chosen, fn);
  VALGRIND_DO_CLIENT_REQUEST_STMT(CORE_ADD_IFUNC_TARGET, fn.nraddr, chosen, 0, 0, 0);
  return chosen;
}
