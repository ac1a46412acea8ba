/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Mappings come, move and go. The engine makes modules, stacks and mapping objects of them. */
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_tooliface.h"
#include "tool.h"

/* The code of the libraries that Valgrind and we preload: left out of stream and counts. */
#define MAX_PRELOADS 8
static struct { Addr start, end; } preloads[MAX_PRELOADS];
static UInt preload_count = 0;

Bool ss_in_preload(Addr address) {
  for (UInt i = 0; i < preload_count; i++)
    if (preloads[i].start <= address && address < preloads[i].end) return True;
  return False;
}

static void note_preload(Addr address, SizeT length, const HChar* path) {
  const HChar* slash = VG_(strrchr)(path, '/');
  if (preload_count == MAX_PRELOADS || slash == NULL) return;
  if (VG_(strncmp)(slash + 1, "vgpreload_", 10) != 0) return;
  preloads[preload_count].start = address;
  preloads[preload_count++].end = address + length;
}

static void emit_map(Addr address, SizeT length, Bool r, Bool w, Bool x) {
  const NSegment* segment = VG_(am_find_nsegment)(address);
  const HChar* path = segment ? VG_(am_get_filename)(segment) : NULL;
  ULong offset = segment && path ? segment->offset + (address - segment->start) : 0;
  ss_word fields[] = {address, length, (r ? 1 : 0) | (w ? 2 : 0) | (x ? 4 : 0), offset};
  if (path == NULL) path = "";
  if (x) note_preload(address, length, path);
  ss_watch_mapped(address, offset, path);
  ss_emit_tail(SS_MAP, ss_current_thread(), fields, 4, path, VG_(strlen)(path));
}

static void startup(Addr address, SizeT length, Bool r, Bool w, Bool x, ULong handle) {
  emit_map(address, length, r, w, x);
}

static void mapped(Addr address, SizeT length, Bool r, Bool w, Bool x, ULong handle) {
  emit_map(address, length, r, w, x);
}

static void unmapped(Addr address, SizeT length) {
  ss_word fields[] = {address, length};
  ss_emit(SS_UNMAP, ss_current_thread(), fields, 2);
}

static void protection_changed(Addr address, SizeT length, Bool r, Bool w, Bool x) {
  /* Generated code is written first and made executable later: the engine wants to know. */
  if (x) emit_map(address, length, r, w, x);
}

static void remapped(Addr from, Addr to, SizeT length) {
  ss_word fields[] = {from, to, length};
  ss_emit(SS_REMAP, ss_current_thread(), fields, 3);
}

static void break_grows(Addr address, SizeT length, ThreadId tid) {
  ss_word fields[] = {address, address + length};
  ss_emit(SS_BRK, ss_current_thread(), fields, 2);
}

static void break_shrinks(Addr address, SizeT length) {
  ss_word fields[] = {address + length, address};
  ss_emit(SS_BRK, ss_current_thread(), fields, 2);
}

void ss_memory_init(void) {
  VG_(track_new_mem_startup)(startup);
  VG_(track_new_mem_mmap)(mapped);
  VG_(track_die_mem_munmap)(unmapped);
  VG_(track_change_mem_mprotect)(protection_changed);
  VG_(track_copy_mem_remap)(remapped);
  VG_(track_new_mem_brk)(break_grows);
  VG_(track_die_mem_brk)(break_shrinks);
}
