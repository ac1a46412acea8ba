# SPDX-License-Identifier: Apache-2.0
"""The shared memory between one target process and the engine.

A file: one header page, then BUFFERS buffers of BUFFER_WORDS words, one more that is the desk, then
the counters, one word for each exit of each block. Every variable that the generated code touches
lies in the header, so that after a kill -9 of the target nothing that it had written is lost: the
engine reads what is not published yet up to `position`.

While only counts are kept, little is written, and it is written where it stays. A stream is written
on the desk, and copied into its buffer as a whole, past the caches: memory that the reader has just
read would have to come back from its processor line by line, while the writer waits. When the
reader falls behind, the writer sifts what it copies (engine/sieve/sieve.h); blocks that the reader
does not see then are in the counters.

Writer: the target process, which Valgrind runs one thread at a time. Reader: one engine thread.
The writer owns buffer `published` (modulo BUFFERS) and everything in front of it that the reader
has `consumed`; the reader owns the buffers in between.
"""

MAGIC = 0x31474E4952535453
HEADER_BYTES = 16384
BUFFER_WORDS = 8192
BUFFERS = 128
GUARD_WORDS = 512
COUNTERS = 4 * 1024 * 1024

FIELDS = (
    ("magic", "SS_RING_MAGIC once the header is complete"),
    ("version", "SS_STREAM_VERSION"),
    ("mode", "SS_MODE_* bits"),
    ("pid", "of the writer"),
    ("position", "address, in the writer, of the next word to write"),
    ("limit", "address, in the writer, past which the generated code asks for the next buffer"),
    ("executed", "instructions executed and measured"),
    ("stop_at", "value of `executed` at which the generated code asks what to do"),
    ("counters", "address, in the writer, of the counters in use"),
    ("parked", "while measuring is off: the position in the ring; else 0"),
    ("base", "address, in the writer, of this header"),
    ("published", "buffers given to the reader"),
    ("consumed", "buffers given back by the reader"),
    ("exits", "exits defined so far, so counters in use"),
    ("desk", "number of the buffer that will get what lies on the desk"),
    ("sifted", "number of the last buffer whose blocks are in the counters, plus 1"),
    ("ended", "1 once the writer has written its last record"),
    ("alive", "monotonic nanoseconds at the last publication"),
)
MODES = (
    ("STREAM", 1, "block executions and addresses go through the ring"),
    ("COUNT", 2, "block executions are counted in the counters"),
)


def c_declaration() -> str:
    fields = "".join(f"  ss_word {name}; /* {meaning} */\n" for name, meaning in FIELDS)
    modes = "".join(
        f"#define SS_MODE_{name} {bit} /* {meaning} */\n" for name, bit, meaning in MODES
    )
    return (
        f"#define SS_RING_MAGIC {MAGIC:#x}ULL\n"
        f"#define SS_RING_HEADER_BYTES {HEADER_BYTES}\n"
        f"#define SS_RING_BUFFER_WORDS {BUFFER_WORDS}\n"
        f"#define SS_RING_BUFFERS {BUFFERS}\n"
        f"#define SS_RING_GUARD_WORDS {GUARD_WORDS}\n"
        f"#define SS_RING_COUNTERS {COUNTERS}\n"
        "#define SS_RING_DESK_OFFSET (SS_RING_HEADER_BYTES + SS_RING_BUFFERS * "
        "SS_RING_BUFFER_WORDS * 8ULL)\n"
        "#define SS_RING_DATA_BYTES ((SS_RING_BUFFERS + 1) * SS_RING_BUFFER_WORDS * 8ULL)\n"
        "#define SS_RING_COUNTER_OFFSET (SS_RING_HEADER_BYTES + SS_RING_DATA_BYTES)\n"
        "#define SS_RING_BYTES (SS_RING_COUNTER_OFFSET + SS_RING_COUNTERS * 8ULL)\n"
        f"{modes}"
        "/* The shared memory between a target process and the engine; see schemas/ring.py. */\n"
        "struct ss_ring {\n"
        f"{fields}"
        "  ss_word used[SS_RING_BUFFERS]; /* words used of each published buffer */\n"
        "};\n"
    )
