# SPDX-License-Identifier: Apache-2.0
"""The record stream: what capture writes and the engine reads, in 64-bit words.

A record begins with a head word: tag in bits 63..56, length in words (head included) in bits
55..32, thread in bits 31..0. Its second word is the number of instructions that the process had
executed. The fields follow, one word each, then the tail: a word with its length in bytes and the
bytes, padded with zeros to whole words.

A block execution is the one exception: tag 0x80, its length as above, the exit's number in bits
31..0, and then one address word for each memory operation that the block table lists up to that
exit. An operation that was guarded and did not happen has the address NO_ADDRESS.
"""

from schemas.declare import Choice, Field, Record

STREAM_VERSION = 1
BLOCK_TAG = 0x80
NO_ADDRESS = 0xFFFF_FFFF_FFFF_FFFF

OP_KIND = Choice(
    "op_kind",
    "what a memory operation does",
    (
        ("load", 0, "reads"),
        ("store", 1, "writes"),
        ("modify", 2, "reads and writes the same bytes; counted as one load"),
        ("none", 3, "nothing: of instructions at which a clock found a thread; not in streams"),
        ("prefetch", 4, "brings a line and waits for nothing; not counted as an access"),
    ),
)
ALLOC_KIND = Choice(
    "alloc_kind",
    "the function family that made a heap block",
    (
        ("malloc", 0, "malloc"),
        ("calloc", 1, "calloc"),
        ("realloc", 2, "realloc, reallocarray"),
        ("aligned", 3, "memalign, posix_memalign, aligned_alloc, valloc, pvalloc"),
        ("new", 4, "operator new"),
        ("new_array", 5, "operator new[]"),
    ),
)
SYNC_KIND = Choice(
    "sync_kind",
    "a point at which threads may order each other",
    (
        ("futex_wait", 0, "a thread is about to wait on a futex"),
        ("futex_woken", 1, "the wait ended"),
        ("futex_wake", 2, "a thread wakes others on a futex"),
        ("clone", 3, "a thread starts another; the address is the child's tid word"),
        ("exit", 4, "a thread ends; the address is the word that its joiner waits on"),
    ),
)
MARK_KIND = Choice(
    "mark_kind",
    "what the program says about itself through stallscope.h, or an option says for it",
    (
        ("measure_on", 0, "measuring starts"),
        ("measure_off", 1, "measuring stops"),
        ("region_begin", 2, "a named region of code begins"),
        ("region_end", 3, "a named region of code ends"),
        ("max_instructions", 4, "the instruction limit was reached; measuring stops for good"),
        ("inherited", 5, "what came before this was there when the process forked off"),
    ),
)
CHOICES = (OP_KIND, ALLOC_KIND, SYNC_KIND, MARK_KIND)

RECORDS = (
    Record(
        "process_start",
        1,
        "a process image begins: after exec, or as the child of a fork",
        (
            Field("pid", "process id"),
            Field("parent_pid", "process id of the parent"),
            Field("fork_token", "token of the parent's fork record; 0 after an exec"),
            Field("clock_ns", "monotonic clock"),
        ),
        tail="NUL-terminated strings: the program as it was called, then its arguments",
    ),
    Record(
        "process_end",
        2,
        "the process ends in an orderly way",
        (
            Field("exit_code", "status given to exit, 0..255; 256 when a signal ended it"),
            Field("clock_ns", "monotonic clock"),
        ),
    ),
    Record("exec", 3, "the process is about to replace its image", (), tail="path"),
    Record(
        "exec_failed", 4, "the exec did not happen; the process goes on", (Field("error", "errno"),)
    ),
    Record(
        "fork",
        5,
        "the process is about to fork",
        (Field("token", "named by the child's process_start"),),
    ),
    Record(
        "thread_start",
        6,
        "a thread begins",
        (
            Field("parent", "thread that created it"),
            Field("lwp", "the kernel's thread id"),
            Field("stack_pointer", "at its first instruction"),
        ),
    ),
    Record("thread_exit", 7, "a thread ends", ()),
    Record("thread_name", 8, "a thread's name, also when it is set late", (), tail="name"),
    Record(
        "thread_switch",
        9,
        "from here on the head's thread runs",
        (Field("clock_ns", "monotonic clock"),),
    ),
    Record(
        "map",
        10,
        "memory is mapped",
        (
            Field("address", "first byte"),
            Field("length", "bytes"),
            Field("access", "1 read, 2 write, 4 execute"),
            Field("offset", "offset in the file"),
        ),
        tail="path of the file, empty when anonymous",
    ),
    Record(
        "unmap",
        11,
        "memory is unmapped",
        (Field("address", "first byte"), Field("length", "bytes")),
    ),
    Record(
        "remap",
        12,
        "a mapping moves or changes its size",
        (Field("old_address", ""), Field("new_address", ""), Field("length", "bytes moved")),
    ),
    Record("brk", 13, "the break moves", (Field("old_end", ""), Field("new_end", ""))),
    Record(
        "site",
        14,
        "an allocation path, given before its first use",
        (Field("site", "its number"),),
        tail="return addresses, innermost first, 8 bytes each",
    ),
    Record(
        "alloc",
        15,
        "a heap block is born",
        (
            Field("address", "first byte"),
            Field("size", "bytes asked for"),
            Field("site", "allocation path"),
            Field("kind", "alloc_kind"),
            Field("old_address", "the block that realloc took in, else 0"),
        ),
    ),
    Record("free", 16, "a heap block dies", (Field("address", "first byte"),)),
    Record(
        "block",
        17,
        "a block of code, given before its first execution",
        (
            Field("first_exit", "number of its first exit; its others follow"),
            Field("address", "of its first instruction"),
            Field("instructions", "how many"),
            Field("operations", "how many"),
            Field("exits", "how many"),
        ),
        tail="one word for each instruction: address in bits 0..47, length in bits 48..52, and bit "
        "56 when it may not have been executed (docs/models/capture.md); {u16 instruction, "
        "u8 op_kind, u8 guarded, u32 size} for each operation; {u32 instructions, "
        "u32 operations} done at each exit; the code's bytes",
    ),
    Record(
        "signal",
        18,
        "a signal handler is entered (depth 1) or left (depth 0)",
        (Field("number", "signal"), Field("entered", "1 entered, 0 left")),
    ),
    Record(
        "sync",
        19,
        "a synchronisation mark",
        (
            Field("kind", "sync_kind"),
            Field("address", "futex word"),
            Field("value", "count or result"),
        ),
    ),
    Record(
        "mark",
        20,
        "a word from the program about itself",
        (Field("kind", "mark_kind"),),
        tail="name",
    ),
    Record(
        "name_block",
        21,
        "the program names a range of memory",
        (Field("address", "first byte"), Field("size", "bytes")),
        tail="name",
    ),
    Record(
        "wait",
        23,
        "a child process was waited for",
        (Field("pid", "of the child"), Field("status", "as wait4 gives it")),
    ),
    Record(
        "note",
        22,
        "something about the quality of the recording",
        (Field("count", "how often"),),
        tail="kind, a colon, and a sentence",
    ),
    Record(
        "when",
        25,
        "a condition that the program names holds",
        (Field("value", "what the program says with it"),),
        tail="name",
    ),
    Record(
        "watched",
        26,
        "memory that is watched was accessed",
        (
            Field("watch", "its number"),
            Field("kind", "1 read, 2 written, 3 both"),
            Field("address", "first byte that was accessed; 0: several accesses"),
            Field("size", "bytes accessed"),
            Field("start", "first byte of the range that it touched"),
            Field("value", "first bytes of the range afterwards, at most 8"),
            Field("code", "address of the instruction"),
            Field("site", "calls that led there"),
            Field("count", "how many accesses"),
        ),
        tail="bytes of the range afterwards, when they are wanted",
    ),
    Record(
        "sifted",
        24,
        "block executions in a row, of whose accesses the capture tool kept what can matter to the "
        "machine (engine/sieve/sieve.h); between target and recorder only",
        (
            Field("instructions", "executed"),
            Field("accesses", "operations, those that did not happen included"),
            Field("absent", "operations that did not happen, and prefetches"),
            Field("fetches", "lines of code"),
            Field("first_line", "of code"),
            Field("last_line", "of code"),
            Field("kept", "accesses"),
            Field("kept_fetches", "fetches"),
        ),
        tail="addresses of what was kept, 8 bytes each, first accesses, then fetches; then 4 bytes "
        "for each: the operation, or the kept accesses before the fetch, and what is to be looked "
        "up",
    ),
)
