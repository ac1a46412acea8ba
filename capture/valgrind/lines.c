/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Python programs: heap blocks that extension modules (NumPy and others) ask for are named by the
   line of Python that was running, as "function (file.py:12)".

   The interpreter itself says where it is: after such a block was made, preload.c calls its
   _Py_DumpTraceback, which fault handlers use and which therefore allocates nothing, takes no lock
   and changes nothing. What it writes to file -1 is heard here and goes nowhere else. Meanwhile the
   thread is hidden, so that nothing of it is in stream and counts.

   Frames of installed packages and of the standard library are passed over, to the first line that
   is the user's, if there is one. */
#include "lines.h"

#include "pub_tool_debuginfo.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_threadstate.h"
#include "tool.h"

#define LINE_BYTES 1400 /* file and function are cut at 500 characters each */
#define NAME_BYTES 700

/* Of Valgrind's core, exported by libcoregrind but not by the tool headers. */
struct symbol {
  Addr address;
};
extern Bool VG_(lookup_symbol_SLOW)(DiEpoch epoch, const HChar* soname, const HChar* name,
                                    struct symbol* found);

static struct ss_python python;
static UInt searched_in = ~0U; /* epoch */
static Bool noted = False;

struct telling {
  Bool on;
  Bool users; /* the name is of the user's own code */
  Addr block;
  UWord size;
  UInt length;
  HChar line[LINE_BYTES];
  HChar name[NAME_BYTES];
};
static struct telling** tellings = NULL; /* by ThreadId */

static const HChar* base_name(const HChar* path) {
  const HChar* slash = VG_(strrchr)(path, '/');
  return slash ? slash + 1 : path;
}

static Bool begins(const HChar* text, const HChar* with) {
  return VG_(strncmp)(text, with, VG_(strlen)(with)) == 0;
}

static Bool has_python(void) {
  const DebugInfo* module = NULL;
  while ((module = VG_(next_DebugInfo)(module))) {
    const HChar* name = base_name(VG_(DebugInfo_get_filename)(module));
    if (begins(name, "python") || begins(name, "libpython")) return True;
  }
  return False;
}

static Addr find(const HChar* soname, const HChar* name) {
  struct symbol found;
  DiEpoch epoch = VG_(current_DiEpoch)();
  return VG_(lookup_symbol_SLOW)(epoch, soname, name, &found) ? found.address : 0;
}

/* Modules come and go; they are searched once for each time that one does. */
static void find_python(void) {
  if (python.dump || searched_in == VG_(current_DiEpoch)().n) return;
  searched_in = VG_(current_DiEpoch)().n;
  if (!has_python()) return;
  python.this_thread = (void* (*)(void))find("*", "PyGILState_GetThisThreadState");
  python.error = (int* (*)(void))find("libc.so*", "__errno_location");
  if (!python.this_thread || !python.error) return;
  python.dump = (void (*)(int, void*))find("*", "_Py_DumpTraceback");
  if (!python.dump && !noted)
    ss_note(
        "python lines: this interpreter has no _Py_DumpTraceback that can be found, so memory of "
        "its extensions is not named by lines of Python");
  noted = True;
}

static Bool same_module(const DebugInfo* module, Addr address) {
  return VG_(find_DebugInfo)(VG_(current_DiEpoch)(), address) == module;
}

Bool ss_lines_apply(Addr caller) {
  find_python();
  if (!python.dump) return False;
  const DebugInfo* module = VG_(find_DebugInfo)(VG_(current_DiEpoch)(), caller);
  return module && !same_module(module, (Addr)python.dump) &&
         !same_module(module, (Addr)python.error);
}

const struct ss_python* ss_lines_begin(ThreadId tid, Addr block, UWord size) {
  if (size < SS_LINES_SMALLEST) return NULL;
  if (!tellings) tellings = VG_(calloc)("ss.lines", VG_N_THREADS, sizeof *tellings);
  if (!tellings[tid]) tellings[tid] = VG_(calloc)("ss.lines", 1, sizeof **tellings);
  struct telling* telling = tellings[tid];
  telling->on = True;
  telling->users = False;
  telling->block = block;
  telling->size = size;
  telling->length = 0;
  telling->name[0] = 0;
  ss_measure_hide(True);
  return &python;
}

Bool ss_lines_are_told(ThreadId tid) { return tellings && tellings[tid] && tellings[tid]->on; }

static Bool is_installed(const HChar* file) {
  return file[0] == '<' || VG_(strstr)(file, "/site-packages/") ||
         VG_(strstr)(file, "/dist-packages/") || VG_(strstr)(file, "/lib/python3");
}

/* The last `", line ` of a line: a file may be called anything. */
static HChar* line_number(HChar* text) {
  HChar *at = text, *last = NULL;
  while ((at = VG_(strstr)(at, "\", line "))) last = at++;
  return last;
}

/* A line that tells of a frame: `  File "/a/b.py", line 12 in f`. Inner frames come first. */
static void hear_line(struct telling* telling, HChar* line) {
  if (telling->users || !begins(line, "  File \"")) return;
  HChar* file = line + VG_(strlen)("  File \"");
  HChar* number = line_number(file);
  if (!number) return;
  *number = 0;
  number += VG_(strlen)("\", line ");
  HChar* function = VG_(strstr)(number, " in ");
  if (!function) return;
  *function = 0;
  function += VG_(strlen)(" in ");
  telling->users = !is_installed(file);
  if (telling->name[0] && !telling->users) return;
  VG_(snprintf)
  (telling->name, NAME_BYTES, "%.127s (%.500s:%.20s)", function, base_name(file), number);
}

void ss_lines_hear(ThreadId tid, const HChar* text, UWord bytes) {
  struct telling* telling = tellings[tid];
  for (UWord i = 0; i < bytes; i++) {
    if (text[i] != '\n') {
      if (telling->length + 1 < LINE_BYTES) telling->line[telling->length++] = text[i];
      continue;
    }
    telling->line[telling->length] = 0;
    telling->length = 0;
    hear_line(telling, telling->line);
  }
}

void ss_lines_end(ThreadId tid) {
  if (!ss_lines_are_told(tid)) return;
  struct telling* telling = tellings[tid];
  telling->on = False;
  ss_measure_hide(False);
  if (telling->name[0]) ss_name_block(telling->block, telling->size, telling->name);
}
