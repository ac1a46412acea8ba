# SPDX-License-Identifier: Apache-2.0
"""The allocation log of native runs: every block under its site, and the program unchanged."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import PATIENCE, Ran, run
from stallscope import _engine
from stallscope.record import heap_log

Build = Callable[..., Path]
LARGE = 32768
# And from which size on an allocator gives a block 16 bytes of its own.
KINDS = {"": 1, "_jemalloc": 9, "_tcmalloc": 9}


@dataclass(frozen=True)
class Block:
    function: str
    address: int
    size: int


class Functions:
    """Which function an address of a program that is not PIE lies in."""

    def __init__(self, program: Path) -> None:
        listed = subprocess.run(
            ["nm", "-C", "-S", "--defined-only", program],
            capture_output=True,
            text=True,
            check=True,
        )
        rows = [line.split(maxsplit=3) for line in listed.stdout.splitlines()]
        self.rows = [
            (int(row[0], 16), int(row[1], 16), row[3].split("(")[0])
            for row in rows
            if len(row) == 4 and row[2] in "tT"
        ]

    def path(self, frames: list[int]) -> list[str]:
        return [
            name
            for frame in frames
            for start, size, name in self.rows
            if start < frame <= start + size
        ]


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "logs"
    folder.mkdir(mode=0o700)
    yield folder


def started(logs: Path, *words: object, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(word) for word in words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=heap_log.environment(logs, {**os.environ, **env}),
    )


def said(process: subprocess.Popen[str]) -> list[Block]:
    """The blocks that a program says are alive, up to its "ready"."""
    assert process.stdout is not None
    blocks = []
    for line in process.stdout:
        if line == "ready\n":
            return blocks
        words = line.split()
        if len(words) == 3:
            blocks.append(Block(words[0], int(words[1], 16), int(words[2])))
    raise AssertionError("the program ended before it was ready")


def proceed(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def finish(process: subprocess.Popen[str]) -> None:
    """Lets a program that has said once what lives run to its end."""
    proceed(process)
    said(process)
    proceed(process)
    assert process.wait(PATIENCE) == 0


def only_log(logs: Path) -> _engine.HeapLog:
    (path,) = heap_log.logs(logs).values()
    return _engine.HeapLog(str(path))


def check(log: _engine.HeapLog, blocks: list[Block], functions: Functions, least: int = 1) -> None:
    """Every byte that is tried of every block is found in it, and its site has the function."""
    sites = log.sites()
    blocks = [block for block in blocks if block.size >= least]
    assert blocks
    for block in blocks:
        for offset in {0, block.size // 2, block.size - 1}:
            found = log.find(block.address + offset)
            assert found is not None, block
            site, is_large, start, size = found
            assert (start, is_large) == (block.address, block.size >= LARGE), block
            # Where a block may be as small as a granule, those that are keep no size.
            assert size == block.size or (block.size <= 16 and size == 16), block
            path = functions.path(sites[site][0])
            assert block.function in path[:3], (block, path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [0, 5])
def test_every_live_block_is_found_under_its_site(
    kind: str, threads: int, logs: Path, program: Build
) -> None:
    path = program(f"heaplog{kind}", pie=False)
    functions = Functions(path)
    with started(logs, path, threads) as process:
        before = said(process)
        log = only_log(logs)
        check(log, before, functions, KINDS[kind])
        proceed(process)
        after = said(process)
        check(log, after, functions, KINDS[kind])
        kept = {block.address for block in after}
        for block in before:
            found = log.find(block.address) if block.size >= KINDS[kind] else None
            assert found is None or block.address in kept or found[2] != block.address, block
        proceed(process)
    assert process.returncode == 0
    check(only_log(logs), after, functions, KINDS[kind])
    assert set(log.lost().values()) == {0}
    assert log.image()["pid"] == process.pid


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_of_new_is_found_under_its_site(kind: str, logs: Path, program: Build) -> None:
    path = program(f"heaplog_cxx{kind}", pie=False)
    with started(logs, path) as process:
        blocks = said(process)
        check(only_log(logs), blocks, Functions(path))
        proceed(process)
    assert process.returncode == 0


@pytest.mark.parametrize("library", ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"])
def test_an_allocator_that_is_preloaded_stays_and_is_logged(
    library: str, logs: Path, program: Build
) -> None:
    path = program("heaplog", pie=False)
    with started(logs, path, 2, LD_PRELOAD=library) as process:
        blocks = said(process)
        assert library in Path(f"/proc/{process.pid}/maps").read_text()
        check(only_log(logs), blocks, Functions(path), 9)
        finish(process)


STAYS = ("make_kept", "make_late", "make_large")


def named(log: _engine.HeapLog, block: Block, functions: Functions) -> tuple[str | None, bool]:
    """The function that the log says made a block, and whether it is sure."""
    middle = block.address + block.size // 2
    found, guess = log.find(middle), log.guess(middle)
    if found is not None:
        assert (found[2], found[3]) == (block.address, block.size), block
    site = found[0] if found is not None else guess[0] if guess is not None else None
    if guess is not None:
        assert 0 < guess[1] < 1
    path = functions.path(log.sites()[site][0]) if site is not None else [None]
    return path[0], found is not None


def share(log: _engine.HeapLog, blocks: list[Block], functions: Functions) -> float:
    """Of blocks that are named right; what the log is sure of always is."""
    right = 0
    for block in blocks:
        name, is_sure = named(log, block, functions)
        assert name == block.function or not is_sure, block
        right += name == block.function
    return right / len(blocks)


def check_churned(log: _engine.HeapLog, blocks: list[Block], functions: Functions) -> None:
    assert log.image()["passed"] > 100_000
    large = [block for block in blocks if block.size >= LARGE]
    assert large
    assert all(log.find(block.address) is not None for block in large)
    fast = [block for block in blocks if block.function not in STAYS]
    assert share(log, fast, functions) > 0.8
    common = [block for block in fast if block.function in ("make_small", "make_medium")]
    assert share(log, common, functions) > 0.85


@pytest.mark.parametrize("kind", KINDS)
# A thread's heap may begin where one that ended left blocks behind.
@pytest.mark.parametrize(("threads", "least"), [(0, 0.97), (3, 0.5)])
def test_blocks_that_stay_are_exact_beside_those_that_come_and_go_too_fast(
    kind: str, threads: int, least: float, logs: Path, program: Build
) -> None:
    path = program(f"heaplog_churn{kind}", pie=False)
    functions = Functions(path)
    with started(logs, path, 1_500_000, threads) as process:
        blocks = said(process)
        log = only_log(logs)
        check_churned(log, blocks, functions)
        kept = [block for block in blocks if block.function == "make_kept"]
        sure = sum(named(log, block, functions)[1] for block in kept)
        assert sure > least * len(kept)
        assert share(log, kept, functions) > 0.9
        passed = log.image()["passed"]
        proceed(process)
        late = [block for block in said(process) if block.function == "make_late"]
        assert log.image()["passed"] - passed < 10_000
        assert share(log, late, functions) > 0.9
        proceed(process)
    assert process.returncode == 0
    lost = log.lost()
    lost.pop("without_record")  # nobody took them from the rings while it ran
    assert set(lost.values()) == {0}


def test_a_child_of_a_program_that_churns_begins_exact(logs: Path, program: Build) -> None:
    path = program("heaplog_churn", pie=False)
    with started(logs, path, 1_500_000, 0, "fork") as process:
        blocks = said(process)
        child = next(
            log
            for log in (_engine.HeapLog(str(log)) for log in heap_log.logs(logs).values())
            if log.image()["parent_pid"] == process.pid
        )
        check_churned(child, blocks, Functions(path))
        finish(process)


def test_every_block_is_logged_where_that_is_asked_for(logs: Path, program: Build) -> None:
    path = program("heaplog_churn", pie=False)
    with started(logs, path, 1_000_000, STALLSCOPE_HEAP_EXACT="1") as process:
        blocks = said(process)
        log = only_log(logs)
        assert log.image()["passed"] == 0
        assert all(log.guess(block.address) is None for block in blocks)
        assert share(log, blocks, Functions(path)) == 1
        finish(process)


def test_large_blocks_are_told_at_birth_and_death(logs: Path, program: Build) -> None:
    path = program("heaplog", pie=False)
    with started(logs, path, 3) as process:
        blocks = [block for block in said(process) if block.size >= LARGE]
        log = only_log(logs)
        events = log.poll()
        times = [event[0] for event in events]
        assert times == sorted(times)
        born = [event for event in events if event[1]]
        assert {(event[2], event[3]) for event in born} >= {(b.address, b.size) for b in blocks}
        assert len({event[5] for event in born}) == 4  # threads
        assert log.poll() == []
        proceed(process)
        alive = {block.address for block in said(process)}
        died = {event[2] for event in log.poll() if not event[1]}
        gone = {block.address for block in blocks if block.address not in alive}
        assert gone
        assert gone <= died
        proceed(process)
    assert process.returncode == 0


def test_a_forked_child_has_a_log_of_its_own(logs: Path, program: Build) -> None:
    path = program("heaplog", pie=False)
    with started(logs, path, 0, "fork") as process:
        blocks = said(process)
        (parent, child) = sorted(
            (_engine.HeapLog(str(log)) for log in heap_log.logs(logs).values()),
            key=lambda log: log.image()["parent_pid"],
        )
        assert parent.image()["pid"] == process.pid
        assert child.image()["parent_pid"] == process.pid
        check(child, blocks, Functions(path))
        finish(process)


def test_every_image_of_a_process_has_a_log(logs: Path, program: Build) -> None:
    path = program("heaplog", pie=False)
    with started(logs, path, 0, "exec") as process:
        blocks = said(process)
        found = heap_log.logs(logs)
        # The first image executes the second before it allocates anything: it may leave no log.
        assert {pid for pid, _ in found} == {process.pid}
        check(_engine.HeapLog(str(list(found.values())[-1])), blocks, Functions(path))
        finish(process)


def test_counts_by_site_are_exact(logs: Path, workload: Callable[[str], Path]) -> None:
    ran = run(workload("churn"), 20000, 512, env=heap_log.environment(logs, os.environ))
    words = dict(word.split("=") for word in ran.stdout.split()[1:])
    names = subprocess.run(
        ["nm", workload("churn")], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "allocate_small" in names
    blocks = sorted(blocks for _, blocks, _ in only_log(logs).sites().values())
    for kind in ("small", "medium", "large", "grown"):
        assert int(words[kind]) in blocks, kind


@pytest.mark.parametrize(
    "command",
    [
        [
            "/usr/bin/python3",
            "-c",
            "import json; print(json.dumps({str(i): [i] * 9 for i in range(999)}))",
        ],
        [
            "sqlite3",
            ":memory:",
            "create table t(a); insert into t values (1), (2); select * from t",
        ],
        ["bash", "-c", "for i in 1 2 3; do (echo $i; exit $i); done | sort -r; exit 7"],
        ["perl", "-e", "print join ',', map { $_ x 3 } 1 .. 2000"],
        ["gzip", "-c", __file__],
        ["sh", "-c", "kill -SEGV $$"],
    ],
    ids=lambda command: command[0],
)
def test_programs_do_what_they_do_without_it(command: list[str], logs: Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    native = run(*command)
    logged = run(*command, env=heap_log.environment(logs, os.environ))
    assert logged == native
    assert heap_log.logs(logs)


def test_programs_with_no_log_to_write_are_unharmed(tmp_path: Path) -> None:
    for folder in (tmp_path / "absent", Path("/proc")):
        ran = run("perl", "-e", "print 'x' x 9", env=heap_log.environment(folder, os.environ))
        assert (ran.status, ran.out, ran.err) == (0, b"x" * 9, b"")


def limited(folder: Path, limit: str, command: str) -> Ran:
    words = ("bash", "-c", f"{limit}; exec {command}")
    return run(*words, env=heap_log.environment(folder, os.environ))


@pytest.mark.parametrize("limit", ["ulimit -v 300000", "ulimit -v 4000000", "ulimit -f 100"])
def test_a_limit_on_addresses_or_files_is_the_programs_own(limit: str, logs: Path) -> None:
    ran = limited(logs, limit, "perl -e 'print length(q(x) x 50_000_000)'")
    assert (ran.status, ran.out, ran.err) == (0, b"50000000", b"")


@pytest.mark.parametrize("size", ["8k", "60k", "200k", "600k"])
def test_a_full_file_system_ends_the_log_and_not_the_program(
    size: str, logs: Path, program: Build
) -> None:
    if run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", logs).status != 0:
        pytest.skip("may not mount a small file system")
    try:
        with started(logs, program("heaplog", pie=False), 15) as process:
            said(process)
            lost = [_engine.HeapLog(str(log)).lost() for log in heap_log.logs(logs).values()]
            finish(process)
        assert all(one["without_mark"] + one["without_thread"] > 0 for one in lost)
    finally:
        run("umount", logs)


def test_thousands_of_threads_share_the_places_for_them(logs: Path, program: Build) -> None:
    path = program("heaplog_threads", pie=False)
    ran = run(path, env=heap_log.environment(logs, os.environ))
    assert ran.stdout == "threads=2000 blocks=40000\n"
    log, functions = only_log(logs), Functions(path)
    lost = log.lost()
    assert lost.pop("without_record") > 0  # nobody took them from the rings
    assert set(lost.values()) == {0}
    made = sum(
        blocks
        for frames, blocks, _ in log.sites().values()
        if functions.path(frames)[:1] == ["make_small"]
    )
    assert made == 40000
    births = [event for event in log.poll() if event[1]]
    assert 0 < len(births) <= 2000


def test_a_static_program_ignores_it(logs: Path, program: Build) -> None:
    ran = run(program("exit_code", static=True), 3, env=heap_log.environment(logs, os.environ))
    assert ran.err == b""
    assert heap_log.logs(logs) == {}


def test_a_program_that_closes_every_file_is_still_logged(logs: Path, program: Build) -> None:
    path = program("heaplog", pie=False)
    closing = "use POSIX; POSIX::close($_) for 3 .. 999; exec @ARGV"
    with started(logs, "perl", "-e", closing, path, 1) as process:
        blocks = said(process)
        found = [log for (pid, _), log in heap_log.logs(logs).items() if pid == process.pid]
        check(_engine.HeapLog(str(found[-1])), blocks, Functions(path))
        finish(process)


def test_a_log_that_is_none_is_refused(tmp_path: Path, logs: Path) -> None:
    bad = tmp_path / "bad"
    for content in (b"", b"x" * 10000):
        bad.write_bytes(content)
        with pytest.raises(_engine.EngineError, match="cannot be read"):
            _engine.HeapLog(str(bad))
    with pytest.raises(_engine.EngineError, match="cannot open"):
        _engine.HeapLog(str(tmp_path / "absent"))
    run("true", env=heap_log.environment(logs, os.environ))
    (log,) = heap_log.logs(logs).values()
    link = tmp_path / "link"
    link.symlink_to(log)
    with pytest.raises(_engine.EngineError, match="cannot open"):
        _engine.HeapLog(str(link))


def parts(path: Path) -> Iterator[tuple[int, int]]:
    """Where a sparse file holds something."""
    with path.open("rb") as file:
        end = 0
        while True:
            try:
                begin = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError:
                return
            end = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            yield begin, end


def test_damaged_logs_never_harm_the_reader(logs: Path, program: Build) -> None:
    """Bytes of every part are overwritten; whatever comes out, the reader lives."""
    with started(logs, program("heaplog", pie=False), 1) as process:
        blocks = said(process)
        finish(process)
    (path,) = heap_log.logs(logs).values()
    draw = random.Random(5)
    found = refused = 0
    places = [(0, 160)] * 3 + list(parts(path))
    for _ in range(600):
        begin, end = draw.choice(places)
        with path.open("r+b") as file:
            header = file.read(160)
            file.seek(draw.randrange(begin, min(end, begin + 8192)))
            file.write(draw.choice([b"\xff" * 8, b"\0" * 4, draw.randbytes(8)]))
        try:
            log = _engine.HeapLog(str(path))
            log.poll()
            found += log.find(draw.choice(blocks).address) is not None
            log.find(draw.getrandbits(64))
            log.lost()
            log.sites()
        except _engine.EngineError:
            refused += 1
        with path.open("r+b") as file:
            file.write(header)
    assert found > 0
    assert refused > 0


def test_redis_answers_as_without_it(logs: Path, tmp_path: Path) -> None:
    server, client = shutil.which("redis-server"), shutil.which("redis-cli")
    if server is None or client is None:
        pytest.skip("redis-server is not installed")
    socket = tmp_path / "redis.sock"
    words = [
        server,
        "--port",
        "0",
        "--unixsocket",
        str(socket),
        "--save",
        "",
        "--dir",
        str(tmp_path),
    ]
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, env=heap_log.environment(logs, os.environ)
    )
    try:
        while not socket.exists():
            assert process.poll() is None
        script = "".join(
            f"SET key:{i} {'v' * (i % 300 + 1)}\nGET key:{i}\nRPUSH list {i}\n" for i in range(2000)
        )
        answers = run(client, "-s", socket, stdin=script.encode()).stdout.split("\n")
        assert answers[:6] == ["OK", "v", "1", "OK", "vv", "2"]
        log = only_log(logs)
        sites = log.sites()
        assert sum(blocks for _, blocks, _ in sites.values()) > 5000
        assert log.lost()["without_site"] == 0
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0
