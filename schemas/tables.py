# SPDX-License-Identifier: Apache-2.0
"""The tables of a recording. Times are instructions that the process had executed."""

from schemas.declare import Column, Table

FORMAT_VERSION = 1
NEVER = 0xFFFF_FFFF_FFFF_FFFF
NONE32 = 0xFFFF_FFFF

THREAD = Table(
    "thread",
    "every thread of the process",
    (
        Column(
            "thread", "u32", "number within the process, 1 for the main thread; never used again"
        ),
        Column("lwp", "u32", "the kernel's thread id"),
        Column("name", "string", "last name it had"),
        Column("parent", "u32", "thread that created it", none=0),
        Column("started", "u64", "when", "instructions"),
        Column(
            "ended",
            "u64",
            "when; null if it was still there at the end",
            "instructions",
            none=NEVER,
        ),
        Column("instructions", "u64", "executed by this thread", "instructions"),
        Column("turns", "u64", "times it was given the processor"),
    ),
)
MODULE = Table(
    "module",
    "every executable file that was mapped",
    (
        Column("module", "u32", "number"),
        Column("path", "string", "file"),
        Column("build_id", "string", "of the file, hexadecimal; empty when it has none"),
        Column(
            "bias", "u64", "what to subtract from an address to get the file's own address", "bytes"
        ),
        Column("start", "u64", "first address", "bytes"),
        Column("end", "u64", "one past the last address", "bytes"),
        Column("loaded", "u64", "when", "instructions"),
        Column("unloaded", "u64", "when; null if never", "instructions", none=NEVER),
    ),
)
BLOCK = Table(
    "block",
    "every block of code that ran",
    (
        Column("block", "u32", "number"),
        Column("address", "u64", "of its first instruction", "bytes"),
        Column("module", "u32", "where it lies; null for generated code", none=NONE32),
        Column("instructions", "u32", "in the block"),
        Column("operations", "u32", "memory operations in the block"),
        Column("executions", "u64", "times it was entered and not cut short by a fault"),
        Column("function", "string", "innermost function, inlined ones included"),
        Column("file", "string", "source file; empty when unknown"),
        Column("line", "u32", "source line; null when unknown", none=0),
        Column("bytes", "bytes", "its machine code"),
    ),
)
OPERATION = Table(
    "operation",
    "every memory operation of every block that ran",
    (
        Column("operation", "u32", "number"),
        Column("block", "u32", "block it belongs to"),
        Column("address", "u64", "of its instruction", "bytes"),
        Column(
            "kind",
            "u8",
            "0 load, 1 store, 2 modify, 4 prefetch; 3 none, of instructions at which a clock found "
            "a thread",
        ),
        Column("size", "u32", "bytes accessed", "bytes"),
        Column("executions", "u64", "times the operation was reached"),
        Column("function", "string", "innermost function, inlined ones included"),
        Column("file", "string", "source file; empty when unknown"),
        Column("line", "u32", "source line; null when unknown", none=0),
    ),
)
SITE = Table(
    "site",
    "allocation paths, one row a frame, innermost first, inlined frames included",
    (
        Column("site", "u32", "number"),
        Column("depth", "u32", "0 for the innermost frame"),
        Column("address", "u64", "of the call", "bytes"),
        Column("module", "u32", "where it lies", none=NONE32),
        Column("function", "string", "name; module+offset of its start when it has none"),
        Column("file", "string", "source file; empty when unknown"),
        Column("line", "u32", "source line; null when unknown", none=0),
        Column("inlined", "u8", "1 when this frame was inlined into the next"),
    ),
)
OBJECT = Table(
    "object",
    "everything with a name or a life span that addresses can fall into",
    (
        Column("kind", "string", "heap, global, stack, mapping, or named (by the program)"),
        Column("name", "string", "variable, file or given name; empty for heap blocks"),
        Column("type", "string", "declared type; empty when unknown"),
        Column("address", "u64", "first byte", "bytes"),
        Column("size", "u64", "bytes", "bytes"),
        Column("born", "u64", "when", "instructions"),
        Column("died", "u64", "when; null if it lived to the end", "instructions", none=NEVER),
        Column("thread", "u32", "thread that made it", none=0),
        Column("site", "u32", "allocation path of a heap block", none=NONE32),
        Column(
            "allocator", "string", "function family of a heap block: malloc, calloc, …, new_array"
        ),
    ),
)
EVENT = Table(
    "event",
    "marks in the stream: synchronisation, signals, forks, regions, in their order",
    (
        Column("instruction", "u64", "when", "instructions"),
        Column("thread", "u32", "thread"),
        Column("kind", "string", "futex_wait, signal, fork, region_begin, …"),
        Column(
            "address", "u64", "futex word or memory that it is about; null if none", "bytes", none=0
        ),
        Column("value", "i64", "count, signal number or result"),
        Column("text", "string", "name or path"),
    ),
)
QUALITY = Table(
    "quality",
    "what one should know before believing the numbers",
    (
        Column("kind", "string", "short name"),
        Column("severity", "string", "info, warning or error"),
        Column("count", "u64", "how often"),
        Column("explanation", "string", "a sentence"),
    ),
)
LEVEL = Table(
    "level",
    "what each cache and TLB of a simulated machine did",
    (
        Column("level", "u8", "number; caches first, in the machine's order"),
        Column("name", "string", "L1D, L2, …"),
        Column("kind", "string", "cache or tlb"),
        Column("holds", "string", "data, instructions or both"),
        Column("accesses", "u64", "look-ups by the program"),
        Column("misses", "u64", "look-ups that found nothing"),
        Column("evictions", "u64", "lines or pages thrown out"),
        Column("latency", "u64", "cycles that a hit takes", "cycles"),
        Column("handler_misses", "u64", "of the sampling handler, in none of the other counts"),
        Column("undisturbed_misses", "u64", "misses if the sampling handler touched no cache"),
    ),
)
BUCKET = Table(
    "bucket",
    "stat buckets: what misses are counted by",
    (
        Column("bucket", "u32", "number; 0 is what lies in no known object"),
        Column("kind", "string", "heap, global, stack, mapping, named, handler or unknown"),
        Column("name", "string", "variable, file or given name; empty for heap blocks"),
        Column("type", "string", "declared type; empty when unknown"),
        Column("site", "u32", "allocation path of heap blocks", none=NONE32),
        Column("blocks", "u64", "blocks that it ever had"),
        Column("bytes", "u64", "bytes of those blocks", "bytes"),
        Column(
            "operation",
            "u32",
            "of frames on a stack: the first memory operation of their function",
            none=NONE32,
        ),
    ),
)
MISS = Table(
    "miss",
    "misses by level, stat bucket and memory operation",
    (
        Column("level", "u8", "level that was missed"),
        Column("region", "u32", "innermost region that the program was in; 0 for none"),
        Column("bucket", "u32", "what was accessed"),
        Column("operation", "u32", "by which memory operation"),
        Column("misses", "u64", "how often"),
        Column("latency", "u64", "of those for which this was the last level missed", "cycles"),
    ),
)
EVICTION = Table(
    "eviction",
    "who threw whom out, at which operation; fills of empty ways are no evictions",
    (
        Column("level", "u8", "level"),
        Column("region", "u32", "innermost region that the program was in; 0 for none"),
        Column("victim", "u32", "bucket of the line thrown out"),
        Column("culprit", "u32", "bucket of the line that came in"),
        Column("operation", "u32", "memory operation that fetched it"),
        Column("count", "u64", "how often"),
    ),
)
CODE_MISS = Table(
    "code_miss",
    "misses of instruction fetches by level and place; empty unless they are the event",
    (
        Column("level", "u8", "level that was missed"),
        Column("region", "u32", "innermost region that the program was in; 0 for none"),
        Column("block", "u32", "its block, or one that begins on the same stretch of code"),
        Column("address", "u64", "of its first instruction in the missing line", "bytes"),
        Column("operation", "u32", "nearest on that stretch; null for none", none=NONE32),
        Column("misses", "u64", "how often"),
        Column("latency", "u64", "of those for which this was the last level missed", "cycles"),
    ),
)
SAMPLE = Table(
    "sample",
    "samples of one event, as a PMU would take them",
    (
        Column("bucket", "u32", "what was accessed; null for an instruction", none=NONE32),
        Column("victim", "u32", "bucket of the line thrown out; null when none was", none=NONE32),
        Column("operation", "u32", "by which memory operation, or as in code_miss", none=NONE32),
        Column("block", "u32", "as in code_miss; null for data", none=NONE32),
        Column("latency", "u32", "of the access", "cycles"),
        Column("region", "u32", "innermost region that the program was in; 0 for none"),
        Column("address", "u64", "that missed, of data or of an instruction", "bytes"),
        Column("served", "u8", "level that had it; null for memory", none=0xFF),
        Column("weight", "u64", "events it stands for: the period when it was taken"),
    ),
)
REGION = Table(
    "region",
    "regions that the program marks in itself; numbers are without those of regions inside",
    (
        Column("region", "u32", "number; 0 is what lies in none"),
        Column("around", "u32", "the region around it; null for region 0", none=NONE32),
        Column("name", "string", "as the program calls it; empty for region 0"),
        Column("entered", "u64", "times it began"),
        Column("instructions", "u64", "executed in it", "instructions"),
        Column("accesses", "u64", "to data, by them"),
    ),
)
REGION_LEVEL = Table(
    "region_level",
    "what each cache and TLB did in each region; without regions inside it",
    (
        Column("region", "u32", "region"),
        Column("level", "u8", "level"),
        Column("accesses", "u64", "look-ups by the program"),
        Column("misses", "u64", "look-ups that found nothing"),
        Column("evictions", "u64", "lines or pages thrown out"),
    ),
)
RESIDENT = Table(
    "resident",
    "how much of each stat bucket was in each cache, summed up over the instructions of a region; "
    "with the probe `evictions`",
    (
        Column("level", "u8", "cache"),
        Column("region", "u32", "innermost region that the program was in; 0 for none"),
        Column("bucket", "u32", "whose"),
        Column("lines", "f64", "lines of which it held most", "lines times instructions"),
        Column("bytes", "f64", "of it that were there", "bytes times instructions"),
        Column("live", "f64", "of it that there were at all", "bytes times instructions"),
    ),
)
MISS_CLASS = Table(
    "miss_class",
    "why misses happened, as far as the probe `classify` was attached",
    (
        Column("level", "u8", "level that was missed"),
        Column("region", "u32", "innermost region that the program was in; 0 for none"),
        Column("bucket", "u32", "what was accessed; null for instructions", none=NONE32),
        Column("operation", "u32", "by which memory operation; null for fetches", none=NONE32),
        Column("cold", "u64", "the line had never been looked up at this level"),
        Column("capacity", "u64", "a fully associative cache of the size misses too"),
        Column("conflict", "u64", "a fully associative cache of the size hits"),
    ),
)
TYPE = Table(
    "type",
    "what the blocks of a stat bucket hold, as far as debug information tells",
    (
        Column("bucket", "u32", "number"),
        Column("type", "string", "of a block, or of the elements that it is an array of"),
        Column("size", "u64", "of the type; 0 when unknown", "bytes"),
        Column("element_size", "u64", "after which its parts repeat; 0: it has none", "bytes"),
        Column("confidence", "f64", "share of the votes that it got"),
        Column("voted", "f64", "share of the accesses whose pointer is known"),
        Column("source", "string", "accesses, or allocation when no access is known"),
    ),
)
OFFSET = Table(
    "offset",
    "where inside of blocks and variables accesses missed; with the probe `offsets`",
    (
        Column("region", "u32", "innermost region that the program was in; 0 for none"),
        Column("bucket", "u32", "what was accessed"),
        Column("offset", "u64", "from the start of the block, or of its element", "bytes"),
        Column("operation", "u32", "by which memory operation"),
        Column("misses", "u64", "of the level of interest"),
        Column("latency", "u64", "of all accesses that missed anything", "cycles"),
    ),
)
FOLD = Table(
    "fold",
    "how the offsets of a stat bucket were put together; with the probe `offsets`",
    (
        Column("bucket", "u32", "whose"),
        Column("period", "u64", "size of an element that offsets count from; 0: none", "bytes"),
        Column("header", "u64", "in front of the first element", "bytes"),
        Column("granule", "u64", "that were counted together", "bytes"),
        Column("largest", "u64", "of its blocks that were accessed", "bytes"),
    ),
)
FIELD = Table(
    "field",
    "what lies at the offsets of table `offset`, where the type is known",
    (
        Column("bucket", "u32", "whose"),
        Column("offset", "u64", "as in table `offset`", "bytes"),
        Column("element", "u64", "size of the element that it is in; 0: the block", "bytes"),
        Column("start", "u64", "where the field begins, in the element or block", "bytes"),
        Column("size", "u64", "of the field", "bytes"),
        Column("name", "string", "as next, payload[1] or pos.x"),
        Column("type", "string", "of the field; empty where several share the place"),
    ),
)
PAGE_LOG = Table(
    "page_log",
    "references to pages, without those to the pages used last; with the probe `pages`",
    (
        Column("time", "u64", "when", "instructions"),
        Column("page", "u64", "address over page size"),
        Column("thread", "u32", "thread"),
        Column("bucket", "u32", "what was accessed"),
        Column("region", "u32", "innermost region that the program was in; 0 for none"),
        Column(
            "flags",
            "u8",
            "1 it writes; 2 not among the pages that all threads used last; 4 logged by a PATH "
            "unit; 8 (with 4) a hot page that was read from its tables; 16 (with 4) it came into "
            "them; 32 no reference: it left them; added up. A row with 2 is also marked 1 when the "
            "page is written while it is among those used last",
        ),
        Column(
            "moment",
            "u64",
            "of the PATH units' clock, which has the pages logged so far above its lowest 16 bits "
            "and the lookups since then in them; with flag 32, when the page was used last",
        ),
    ),
)
PAGE_CURVE = Table(
    "page_curve",
    "misses under LRU at each size of memory, of every access and exact: where they change",
    (
        Column("thread", "u32", "of its accesses alone; null for all in their order", none=0),
        Column("pages", "u64", "size of memory", "pages"),
        Column("misses", "u64", "from this size on, first references included"),
    ),
)
PAGE_UNIT = Table(
    "page_unit",
    "what each PATH unit did; a unit a core",
    (
        Column("unit", "u32", "number"),
        Column("lookups", "u64", "of its TLB: references to another page than the one before"),
        Column("tlb_misses", "u64", "of its TLB, writes to pages that are clean there included"),
        Column("buffer_misses", "u64", "of its page access buffer"),
        Column("logged", "u64", "pages that it logged"),
        Column("exceptions", "u64", "times that the log was full"),
        Column("refreshes", "u64", "times that hot pages were read from TLB and buffer"),
        Column("refreshed", "u64", "pages that were"),
        Column("departures", "u64", "pages that left TLB and buffer and were told to have"),
    ),
)
PAGE_BUFFER = Table(
    "page_buffer",
    "what all PATH units together would have logged with a smaller or larger page access buffer",
    (
        Column("entries", "u32", "of the page access buffer"),
        Column("misses", "u64", "of it"),
        Column("logged", "u64", "entries of the logs"),
        Column("exceptions", "u64", "times that a log was full"),
        Column("refreshes", "u64", "times that hot pages were read from TLB and buffer"),
        Column("refreshed", "u64", "pages that were"),
    ),
)
LIVE_SAMPLE = Table(
    "live_sample",
    "samples of a run at native speed, by a clock or by the processor's counters; only in "
    "recordings of such sources, whose times are nanoseconds since the recording began",
    (
        Column("time", "u64", "when", "nanoseconds"),
        Column("thread", "u32", "thread"),
        Column("cpu", "u32", "processor that it ran on; null when unknown", none=NONE32),
        Column("ip", "u64", "where the thread stood", "bytes"),
        Column(
            "operation", "u32", "the instruction that it was at; null when unknown", none=NONE32
        ),
        Column("address", "u64", "of the data; null when unknown", "bytes", none=NEVER),
        Column("bucket", "u32", "what lies there; null when the address is unknown", none=NONE32),
        Column(
            "bucket_confidence",
            "f64",
            "that it is the right one, from 0 to 1: below 1 where a heap block was not logged and "
            "is named by those that lie beside it",
        ),
        Column("state", "string", "memory (waiting for it), compute, kernel or unknown"),
        Column(
            "how",
            "string",
            "the address is known: exact (register values), kept (what the instruction overwrote "
            "was still elsewhere), read (a pointer that it overwrote was read again from memory), "
            "next (of a chain, one element on), given (by the processor); array when only the "
            "array is known that it is in; none when nothing is",
        ),
        Column("confidence", "f64", "that the state is true, from 0 to 1"),
        Column("latency", "u64", "of the access; null when unknown", "cycles", none=NEVER),
        Column("served", "string", "where the data came from; empty when unknown"),
        Column("weight", "u64", "nanoseconds or events that it stands for"),
    ),
)
WATCH = Table(
    "watch",
    "granules of memory that were put under breakpoints after a sample had fallen on them; in "
    "recordings with --watch, whose times are nanoseconds since the recording began",
    (
        Column("watch", "u32", "number"),
        Column("time", "u64", "of the sample", "nanoseconds"),
        Column("armed", "u64", "when the breakpoints were set", "nanoseconds"),
        Column("allowed", "u64", "how long it would wait for a touch", "nanoseconds"),
        Column("thread", "u32", "that was sampled"),
        Column("operation", "u32", "that was sampled; null when unknown", none=NONE32),
        Column("address", "u64", "of the granule", "bytes"),
        Column("bytes", "u32", "that were watched", "bytes"),
        Column("bucket", "u32", "what lies there", none=NONE32),
        Column(
            "waited",
            "u64",
            "from armed to the first touch; null: none came",
            "nanoseconds",
            none=NEVER,
        ),
    ),
)
REUSE = Table(
    "reuse",
    "from one touch of a watched granule to the next; in recordings with --watch",
    (
        Column("watch", "u32", "number"),
        Column("time", "u64", "of the earlier touch", "nanoseconds"),
        Column("thread", "u32", "that touched it"),
        Column("operation", "u32", "that touched it; null when unknown", none=NONE32),
        Column("allowed", "u64", "how long it would wait for the next", "nanoseconds"),
        Column(
            "after", "u64", "time to the next touch; null: none came", "nanoseconds", none=NEVER
        ),
        Column(
            "ran",
            "u64",
            "of it, processor time of the thread; null when another thread touched it, or another "
            "word of the granule, or none",
            "nanoseconds",
            none=NEVER,
        ),
        Column("by", "u32", "thread of the next touch; null: none came", none=NONE32),
        Column("by_operation", "u32", "of the next touch; null when unknown", none=NONE32),
    ),
)
STALL = Table(
    "stall",
    "cycles in which a simulated core retired nothing, by instruction and cause; with `stalls`",
    (
        Column("block", "u32", "block that the instruction belongs to"),
        Column("address", "u64", "of the instruction", "bytes"),
        Column(
            "cause",
            "u8",
            "data_cache, translation, rejection, load_store, fpu, iu, other, "
            "branch_mispredict, inst_cache, from 0",
        ),
        Column("cycles", "u64", "charged to it", "cycles"),
        Column("executions", "u64", "of the instruction"),
    ),
)
STALL_OBJECT = Table(
    "stall_object",
    "stall cycles by the data that was accessed",
    (
        Column("bucket", "u32", "what was accessed"),
        Column("cause", "u8", "as in table `stall`"),
        Column("cycles", "u64", "charged to it", "cycles"),
    ),
)
STALL_SOURCE = Table(
    "stall_source",
    "data-cache stalls by what served the miss",
    (
        Column("source", "string", "cache, or memory"),
        Column("latency", "u64", "cycles that it takes", "cycles"),
        Column("misses", "u64", "of loads and stores that it served"),
        Column("cycles", "u64", "stall cycles, exactly", "cycles"),
    ),
)
CORE_COUNT = Table(
    "core_count",
    "events of a simulated core: in all, over time, by thread, and in each slice of the counters",
    (
        Column("series", "string", "total, time, thread or slice"),
        Column("number", "u32", "within the series; of a thread, its number"),
        Column("thread", "u32", "that ran at its end"),
        Column("event", "u8", "number in the list of events"),
        Column("count", "u64", "how often"),
    ),
)
FILL = Table(
    "fill",
    "where the data of each thread came from, on a machine of several cores; with `sharing`",
    (
        Column("thread", "u32", "thread"),
        Column(
            "source",
            "u8",
            "inner, cache, peer, outer, remote cache, remote outer, memory, remote memory, "
            "upgrade, from 0",
        ),
        Column("count", "u64", "accesses that it served"),
        Column("cycles", "u64", "that loads waited for them", "cycles"),
    ),
)
SHARED_LINE = Table(
    "shared_line",
    "lines that went from cache to cache",
    (
        Column("line", "u64", "first byte", "bytes"),
        Column("address", "u64", "of the first access that did it", "bytes"),
        Column("bucket", "u32", "what lies there"),
        Column("start", "u64", "first byte of that block or variable; null if unknown", none=0),
        Column("threads", "u32", "that got it; those whose numbers differ by 64 count as one"),
        Column("remote", "u64", "times that it came from another chip's cache"),
        Column("fills", "u64", "the same, of any other cache, and writes that others heard of"),
        Column("cycles", "u64", "that loads waited for them", "cycles"),
    ),
)
SHARED_SAMPLE = Table(
    "shared_sample",
    "sampled misses, by what served them",
    (
        Column("instruction", "u64", "when", "instructions"),
        Column("thread", "u32", "whose"),
        Column("line", "u64", "first byte of the line that the register held", "bytes"),
        Column("wanted", "u8", "1: the line's source was a wanted one, 0: it was another miss"),
    ),
)
SHARED_ACCESS = Table(
    "shared_access",
    "accesses to lines that were followed, by thread, code and place in the line",
    (
        Column("line", "u64", "first byte", "bytes"),
        Column("thread", "u32", "who"),
        Column("operation", "u32", "code"),
        Column("offset", "u32", "in the line", "bytes"),
        Column("size", "u32", "of the access, as far as it lies in the line", "bytes"),
        Column("writes", "u8", "1 when it writes"),
        Column("count", "u64", "how often"),
        Column("misses", "u64", "that another cache served, or others had to hear of"),
        Column("false_misses", "u64", "of them, where nobody else had written to these bytes"),
        Column("cycles", "u64", "that loads waited", "cycles"),
    ),
)
SHARED_PAGE = Table(
    "shared_page",
    "pages whose memory was read, by chip",
    (
        Column("page", "u64", "first byte", "bytes"),
        Column("bucket", "u32", "what lies where it was read first"),
        Column("home", "u32", "chip that it belongs to"),
        Column("chip", "u32", "chip that read"),
        Column("count", "u64", "lines that came from memory"),
    ),
)
WATCH_HIT = Table(
    "watch_hit",
    "accesses to watched memory, one by one, the first of them",
    (
        Column("time", "u64", "when", "instructions"),
        Column("watch", "u32", "number of the watch"),
        Column("thread", "u32", "thread"),
        Column("operation", "u32", "by which memory operation"),
        Column("address", "u64", "first byte that was accessed", "bytes"),
        Column("start", "u64", "first byte of the range that it touched", "bytes"),
        Column("path", "u32", "calls that led there; null when not kept", none=NONE32),
    ),
)
WATCH_VALUE = Table(
    "watch_value",
    "what lay in watched memory behind hits of watch_hit, as far as the trace's values tell",
    (
        Column("hit", "u64", "row of watch_hit"),
        Column("value", "u64", "first bytes of the range, up to eight"),
        Column("known", "u8", "1 when all of these are known"),
        Column("snapshot", "string", "bytes of the range in hexadecimal, .. for unknown ones"),
    ),
)
WATCH_COUNT = Table(
    "watch_count",
    "all accesses to watched memory, by watch and memory operation",
    (
        Column("watch", "u32", "number of the watch"),
        Column("operation", "u32", "by which memory operation"),
        Column("hits", "u64", "how often"),
        Column("first", "u64", "when first", "instructions"),
        Column("last", "u64", "when last", "instructions"),
    ),
)
WATCH_PATH = Table(
    "watch_path",
    "call paths of watch_hit, one row a call, innermost first",
    (
        Column("path", "u32", "number"),
        Column("depth", "u32", "0 for the innermost"),
        Column("operation", "u32", "memory operation of the call: its return address"),
    ),
)
WATCHED = Table(
    "watched",
    "accesses to memory that the capture tool watched; only in recordings that `watch` made",
    (
        Column("instruction", "u64", "when", "instructions"),
        Column("thread", "u32", "thread"),
        Column("watch", "u32", "number of the target, from 0"),
        Column("kind", "u8", "1 read, 2 written, 3 both"),
        Column("address", "u64", "first byte accessed; null: several accesses", "bytes", none=0),
        Column("size", "u32", "of the access", "bytes"),
        Column("start", "u64", "first byte of the range that it touched", "bytes"),
        Column("value", "u64", "first bytes of the range afterwards, up to eight"),
        Column("code", "u64", "address of the instruction", "bytes"),
        Column("site", "u32", "calls that led there"),
        Column("count", "u64", "accesses that the row stands for"),
        Column("snapshot", "string", "bytes of the range afterwards in hexadecimal, when kept"),
    ),
)
LOOP = Table(
    "loop",
    "loops that ran: code that a backward jump leads to, up to that jump",
    (
        Column("loop", "u32", "number"),
        Column("header", "u64", "its first instruction", "bytes"),
        Column("end", "u64", "its last instruction, a backward jump", "bytes"),
        Column("around", "u32", "the innermost loop around it", none=NONE32),
        Column("block", "u32", "a block that has its first instruction"),
        Column("entries", "u64", "times that it began"),
        Column("iterations", "u64", "in all"),
        Column("shortest", "u64", "iterations of the shortest entry"),
        Column("longest", "u64", "iterations of the longest"),
        Column("instructions", "u64", "executed in it, not in what it calls", "instructions"),
        Column("calls", "u64", "that it made"),
    ),
)
LOOP_BRANCH = Table(
    "loop_branch",
    "conditional branches in loops, by the innermost",
    (
        Column("loop", "u32", "number"),
        Column("address", "u64", "of the branch", "bytes"),
        Column("taken", "u64", "times"),
        Column("passed", "u64", "times that it was not taken"),
        Column("backward", "u8", "1 when it leads to the header"),
    ),
)
LOOP_ACCESS = Table(
    "loop_access",
    "memory operations in loops, by the innermost, and how far apart their accesses are",
    (
        Column("loop", "u32", "number"),
        Column("operation", "u32", "memory operation"),
        Column("executions", "u64", "times"),
        Column("pairs", "u64", "accesses that followed another in the same entry of the loop"),
        Column("stride", "i64", "most usual distance of such", "bytes"),
        Column("regular", "u64", "pairs of that distance"),
    ),
)
TOUCH = Table(
    "touch",
    "what was touched of each stat bucket; with `check` and `advise`",
    (
        Column("bucket", "u32", "whose"),
        Column("lines", "u64", "of 64 bytes that were touched"),
        Column("bytes", "u64", "of them that were touched", "bytes"),
        Column("accesses", "u64", "to it"),
    ),
)
TOUCH_OFFSET = Table(
    "touch_offset",
    "accesses to each word of the elements of a stat bucket",
    (
        Column("bucket", "u32", "whose"),
        Column("offset", "u64", "of the word in its element", "bytes"),
        Column("accesses", "u64", "that touch it"),
    ),
)
TABLES = (THREAD, MODULE, BLOCK, OPERATION, SITE, OBJECT, EVENT, QUALITY)
# Of recordings by the capture tool, besides, where there is something to say.
CAPTURED = (WATCHED,)
# Of recordings at native speed, besides; BUCKET is there too.
SAMPLED = (LIVE_SAMPLE, WATCH, REUSE)
# Made by a replay through a machine, kept below results/.
RESULTS = (
    LEVEL,
    BUCKET,
    MISS,
    EVICTION,
    CODE_MISS,
    SAMPLE,
    REGION,
    REGION_LEVEL,
    MISS_CLASS,
    RESIDENT,
)
# Made and kept when somebody asks for them.
ON_REQUEST = (TYPE, OFFSET, FOLD, FIELD, PAGE_LOG, PAGE_CURVE, PAGE_UNIT, PAGE_BUFFER)
# Made by a replay through a core.
PIPELINE = (STALL, STALL_OBJECT, STALL_SOURCE, CORE_COUNT)
# Made by a replay on a machine of several cores.
SHARING = (FILL, SHARED_LINE, SHARED_SAMPLE, SHARED_ACCESS, SHARED_PAGE)
# Made by looking at a trace without any machine.
WATCHING = (
    WATCH_HIT,
    WATCH_COUNT,
    WATCH_PATH,
    WATCH_VALUE,
    LOOP,
    LOOP_BRANCH,
    LOOP_ACCESS,
    TOUCH,
    TOUCH_OFFSET,
)
EVERY = (*TABLES, *CAPTURED, *SAMPLED, *RESULTS, *ON_REQUEST, *PIPELINE, *SHARING, *WATCHING)
