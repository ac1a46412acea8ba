// SPDX-License-Identifier: Apache-2.0
// Preloaded into Python programs when asked for (record --python-lines): heap blocks that extension
// modules (NumPy and others) ask for are named by the line of Python that was running, as "function
// (file.py:12)".
//
// Only malloc and calloc, only calls from outside of Python's own code and the C library, and only
// while the thread holds the interpreter's lock: then its allocator is in no half-done state, and
// asking for the frame, which may allocate, is safe. Collections are off meanwhile, so that no
// finalizer runs inside of somebody's malloc.
//
// Frames of installed packages and of the standard library are passed over, to the first line that
// is the user's, if there is one.
#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stallscope.h"

#define SMALLEST 512  // bytes; below, extensions have caches of their own
#define WEAK __attribute__((weak))
#define EXPORT __attribute__((visibility("default")))

typedef void object;
extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
WEAK int PyGILState_Check(void);
WEAK int Py_IsInitialized(void);
WEAK object* PyEval_GetFrame(void);
WEAK object* PyFrame_GetBack(object* frame);
WEAK object* PyFrame_GetCode(object* frame);
WEAK int PyFrame_GetLineNumber(object* frame);
WEAK object* PyObject_GetAttrString(object* of, const char* name);
WEAK const char* PyUnicode_AsUTF8(object* text);
WEAK void PyErr_Fetch(object** type, object** value, object** trace);
WEAK void PyErr_Restore(object* type, object* value, object* trace);
WEAK int PyGC_Disable(void);
WEAK int PyGC_Enable(void);
WEAK void Py_IncRef(object* one);
WEAK void Py_DecRef(object* one);

static struct { uintptr_t start, end; } python, libc;
static __thread int inside;

struct wanted {
  uintptr_t address;
  uintptr_t start, end;
};

static int find_module(struct dl_phdr_info* info, size_t size, void* data) {
  struct wanted* wanted = data;
  (void)size;
  uintptr_t start = UINTPTR_MAX, end = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    const uintptr_t to = from + info->dlpi_phdr[i].p_memsz;
    if (from < start) start = from;
    if (to > end) end = to;
  }
  if (wanted->address < start || wanted->address >= end) return 0;
  wanted->start = start;
  wanted->end = end;
  return 1;
}

// The target is to see the environment that it has without us.
static void leave_environment(void) {
  extern char** environ;
  for (char** at = environ; at && *at; at++) {
    if (strncmp(*at, "LD_PRELOAD=", 11) != 0) continue;
    char* ours = strstr(*at, "libstallscope_python.so");
    if (!ours) return;
    char* from = ours;
    while (from > *at + 11 && from[-1] != ':' && from[-1] != ' ') from--;
    char* to = ours + strlen("libstallscope_python.so");
    if (*to == ':' || *to == ' ') to++;
    memmove(from, to, strlen(to) + 1);
    if (**at && (*at)[11] == '\0')
      for (char** hole = at; (hole[0] = hole[1]) != NULL; hole++) continue;
    return;
  }
}

__attribute__((constructor)) static void begin(void) {
  leave_environment();
  if (!PyEval_GetFrame || !PyGILState_Check || !PyFrame_GetBack || !PyGC_Disable) return;
  struct wanted wanted = {(uintptr_t)&PyEval_GetFrame, 0, 0};
  dl_iterate_phdr(find_module, &wanted);
  struct wanted of_c = {(uintptr_t)&__libc_malloc, 0, 0};
  dl_iterate_phdr(find_module, &of_c);
  libc.start = of_c.start;
  libc.end = of_c.end;
  python.end = wanted.end;
  python.start = wanted.start;  // last: what has a start is ready
}

static int is_installed(const char* file) {
  return strstr(file, "/site-packages/") || strstr(file, "/dist-packages/") ||
         strstr(file, "/lib/python3") || file[0] == '<';
}

static void text_of(object* code, const char* attribute, char* out, size_t size) {
  out[0] = '\0';
  object* value = PyObject_GetAttrString(code, attribute);
  if (!value) return;
  const char* text = PyUnicode_AsUTF8(value);
  if (text) snprintf(out, size, "%s", text);
  Py_DecRef(value);
}

// The innermost frame of the user's own code, else the innermost of all; 0 when there is none.
static int describe(char* out, size_t size) {
  char file[512], function[128];
  int found = 0;
  object* frame = PyEval_GetFrame();
  if (frame) Py_IncRef(frame);
  while (frame) {
    object* code = PyFrame_GetCode(frame);
    text_of(code, "co_filename", file, sizeof file);
    const int installed = is_installed(file);
    if (!found || !installed) {
      text_of(code, "co_name", function, sizeof function);
      const char* base = strrchr(file, '/');
      snprintf(out, size, "%s (%s:%d)", function, base ? base + 1 : file,
               PyFrame_GetLineNumber(frame));
      found = 1;
    }
    Py_DecRef(code);
    object* back = installed ? PyFrame_GetBack(frame) : NULL;
    Py_DecRef(frame);
    frame = back;
  }
  return found;
}

static void name_block(void* block, size_t size, uintptr_t caller) {
  if (!block || size < SMALLEST || inside || !python.start) return;
  if (caller - python.start < python.end - python.start) return;
  if (caller - libc.start < libc.end - libc.start) return;
  if (!Py_IsInitialized() || !PyGILState_Check()) return;
  inside = 1;
  object *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  const int collecting = PyGC_Disable();
  char name[700];
  if (describe(name, sizeof name)) STALLSCOPE_NAME(block, size, name);
  if (collecting) PyGC_Enable();
  PyErr_Restore(type, value, trace);
  inside = 0;
}

EXPORT void* malloc(size_t size) {
  void* block = __libc_malloc(size);
  name_block(block, size, (uintptr_t)__builtin_return_address(0));
  return block;
}

EXPORT void* calloc(size_t count, size_t size) {
  void* block = __libc_calloc(count, size);
  name_block(block, count * size, (uintptr_t)__builtin_return_address(0));
  return block;
}
