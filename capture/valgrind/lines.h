/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lines of Python as names of heap blocks. */
#ifndef STALLSCOPE_LINES_H
#define STALLSCOPE_LINES_H

#include "pub_tool_basics.h"
#include "requests.h"

#define SS_LINES_SMALLEST 512 /* bytes; below, extensions have caches of their own */

/* Whether a block that this code asks for is named so: an extension module's, in a process with an
   interpreter. */
Bool ss_lines_apply(Addr caller);
/* What the preload library has to call now; NULL for a small block. Until ss_lines_end, the thread
   is hidden and what it writes to file -1 is for ss_lines_hear. */
const struct ss_python* ss_lines_begin(ThreadId tid, Addr block, UWord size);
Bool ss_lines_are_told(ThreadId tid);
void ss_lines_hear(ThreadId tid, const HChar* text, UWord bytes);
void ss_lines_end(ThreadId tid);

#endif
