# SPDX-License-Identifier: Apache-2.0
"""The `clock` source: samples by the kernel's timer, at native speed and without any counter."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stallscope import _engine, meta
from stallscope.errors import StallscopeError
from stallscope.record import Recorded, heap_log
from stallscope.record.life import (
    FORWARDED,
    FROM_THE_KERNEL,
    Progress,
    environment,
    exit_status,
    silent,
    wait_for_signal,
)
from stallscope.record.output import new_folder
from stallscope.record.preflight import preflight
from stallscope.record.sampled import OWN_FAILURE, Run, Wanted, images_of, write
from stallscope.record.session import Session
from stallscope.record.so_far import SoFar
from stallscope.recording import Recording

RATE = 251  # samples a second: no divisor of what programs do by the second
FASTEST = 10_000
POLL_SECONDS = 0.05
WATCH_SECONDS = 0.02  # a breakpoint that has seen its touches is free for another
WATCHED = (8, 16, 32)  # bytes: by one, two or all four of a processor's breakpoints


def record(
    command: Sequence[str] = (),
    *,
    pid: int | None = None,
    duration: float | None = None,
    rate: int = RATE,
    watch: int = 0,
    seed: int = 1,
    children: bool = True,
    heap: bool = True,
    output: str | Path | None = None,
    force: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Recorded:
    """Run `command` to its end, or watch process `pid`, and sample it `rate` times for each second
    of a thread's processor time. `duration` ends the watching earlier; the program goes on. With
    `heap` a program that we start logs its allocations, so that heap blocks have names; a process
    that was started with a log (`stallscope run`) has them too. `watch`
    puts some of the sampled addresses under breakpoints, that many bytes around each, until they
    are touched again."""
    _check_watch(watch)
    wanted = Wanted("clock", rate, children, watch=watch, seed=seed)
    return sample(command, wanted, pid, duration, heap, output, force, on_progress)


def sample(
    command: Sequence[str],
    wanted: Wanted,
    pid: int | None,
    duration: float | None,
    heap: bool,
    output: str | Path | None,
    force: bool,
    on_progress: Callable[[Progress], None] | None,
) -> Recorded:
    """What all sources at native speed have in common."""
    _check(command, pid, duration, wanted.rate)
    target = preflight(command, native=True) if pid is None else None
    words = list(target.command) if target else command_of(pid or 0)
    folder = new_folder(output, target.program if target else words[0], force)
    logged = heap and target is not None and not target.is_static
    own = heap_log.of_process(pid) if heap and pid is not None else None
    try:
        with Session(folder) if logged else contextlib.nullcontext() as session:
            run = Run(
                folder=folder,
                command=[meta.as_text(word) for word in words],
                wanted=wanted,
                heap_logs=session.folder if session else own and own.parent,
                described={
                    **wanted.described(),
                    "heap": logged or own is not None,
                    "pid": pid,
                    "duration": duration,
                },
                on_progress=on_progress or silent,
                attached=target is None,
            )
            so_far = SoFar(run)
            if target:
                live = _launched(run, target.argv, duration, so_far)
            else:
                live = _attached(run, pid, duration, so_far)
            so_far.close()
            write(run, images_of(run, live), live)
            if run.failure is not None:  # half of the tables is no recording
                raise run.failure
    except StallscopeError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    status = 0 if run.status is None else exit_status(run.status)
    return Recorded(Recording(run.folder), status, _warnings(live), ())


def _check(command: Sequence[str], pid: int | None, duration: float | None, rate: int) -> None:
    if pid is not None and command:
        raise StallscopeError("-p PID watches a process that runs already", now="without a program")
    if not 1 <= rate <= FASTEST:
        raise StallscopeError(f"--rate {rate}: it lies between 1 and {FASTEST:,} samples a second")
    if duration is not None and not duration > 0:
        raise StallscopeError(f"--duration {duration:g}: it must be more than 0 seconds")
    if pid is not None and not Path(f"/proc/{pid}").is_dir():
        raise StallscopeError(f"there is no process {pid}", now="ps, and give the number of one")


def _check_watch(watch: int) -> None:
    if watch not in (0, *WATCHED):
        raise StallscopeError(
            f"--watch {watch}: breakpoints watch {', '.join(map(str, WATCHED))} bytes"
        )


def command_of(pid: int) -> list[str]:
    """The words of a running process; its short name when it has none, as the kernel's have not."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
        if words:
            return [os.fsdecode(word) for word in words]
        return [Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()]
    except OSError:
        return [f"process {pid}"]


# A program that we start


def _launched(run: Run, argv: Sequence[str], duration: float | None, so_far: SoFar) -> _engine.Live:
    """Runs it to its end; sampling begins with its exec and ends with it, or after `duration`."""
    blocked = {*FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        pid, release, failed = _fork(argv, _environment(run), before)
        try:
            live = _opened(_engine.Live.on_exec, pid, run)
        except StallscopeError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(release)
            os.close(failed)
            raise
        run.started = time.monotonic()
        os.write(release, b"x")
        os.close(release)
        _check_exec(pid, failed, argv[0])
        _watch(run, live, pid, blocked, duration, so_far)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return live


def _environment(run: Run) -> dict[bytes, bytes]:
    given = environment()
    if run.heap_logs is None:
        return given
    words = {os.fsdecode(name): os.fsdecode(value) for name, value in given.items()}
    added = heap_log.environment(run.heap_logs, words)
    return {os.fsencode(name): os.fsencode(value) for name, value in added.items()}


def _fork(argv: Sequence[str], given: dict[bytes, bytes], mask: Any) -> tuple[int, int, int]:
    """A child that waits for a byte, then becomes the program. Its number, where to write the byte,
    and where it says why it could not."""
    words = [os.fsencode(word) for word in argv]
    wait, release = os.pipe()
    failed, fail = os.pipe()
    pid = os.fork()
    if pid:
        os.close(wait)
        os.close(fail)
        return pid, release, failed
    try:
        os.close(release)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if os.read(wait, 1):
            os.execve(words[0], words, given)
    except OSError as error:
        os.write(fail, str(error.errno).encode())
    finally:
        os._exit(127)


def _check_exec(pid: int, failed: int, program: str) -> None:
    with os.fdopen(failed, "rb") as pipe:
        number = pipe.read()
    if number:
        os.waitpid(pid, 0)
        raise StallscopeError(f"{program} could not be started", os.strerror(int(number)))


def _opened(way: Callable[..., _engine.Live], pid: int, run: Run) -> _engine.Live:
    try:
        return way(pid, run.engine_options(), run.symbols)
    except _engine.EngineError as error:
        raise StallscopeError(*error.args, status=OWN_FAILURE) from error


def _watch(
    run: Run,
    live: _engine.Live,
    pid: int,
    blocked: set[signal.Signals],
    duration: float | None,
    so_far: SoFar,
) -> None:
    sampling = True
    while run.status is None:
        info = wait_for_signal(blocked, _pause(run))
        if info is not None and info.si_signo in FORWARDED and info.si_code != FROM_THE_KERNEL:
            os.kill(pid, info.si_signo)
        ended, status, used = os.wait4(pid, os.WNOHANG)
        if ended:
            run.status = status
            run.cpu_seconds = used.ru_utime + used.ru_stime
        if sampling:
            _take(run, live)
        run.seconds = time.monotonic() - run.started
        so_far.show(live)
        if sampling and duration is not None and run.seconds >= duration:
            live.stop()
            sampling = False
    live.stop()


def _pause(run: Run) -> float:
    return WATCH_SECONDS if run.wanted.watch else POLL_SECONDS


def _take(run: Run, live: _engine.Live) -> None:
    live.poll()
    for name, pid in live.known:
        if name not in run.commands:
            run.commands[name] = [meta.as_text(word) for word in command_of(pid)]
    now = time.monotonic() - run.started
    run.on_progress(Progress(now, 0, len(live.known), run.status is not None, samples=live.samples))


# A process that runs already


def _attached(run: Run, pid: int | None, duration: float | None, so_far: SoFar) -> _engine.Live:
    """Until it ends, `duration` is over, or somebody presses Ctrl-C. It never notices."""
    assert pid is not None
    blocked = set(FORWARDED)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    stopped = None
    try:
        with Watch(run, pid) as watch:
            while duration is None or run.seconds < duration:
                left = POLL_SECONDS if duration is None else duration - run.seconds
                stopped = wait_for_signal(blocked, min(_pause(run), left))
                if not watch.poll() or stopped is not None:
                    break
                so_far.show(watch.live)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if stopped is not None:
        _pass_on(stopped.si_signo)
    return watch.live


def _pass_on(number: int) -> None:
    """To a program around us that listens for it, as the agent does."""
    handler = signal.getsignal(number)
    if callable(handler) and handler is not signal.default_int_handler:
        signal.raise_signal(number)


class Watch:
    """A running process that is sampled until the end of the `with`."""

    def __init__(self, run: Run, pid: int) -> None:
        self.run = run
        self._handle = _handle_of(pid)
        try:
            self.live = _opened(_engine.Live.attach, pid, run)
        except StallscopeError:
            os.close(self._handle)
            raise
        run.started = time.monotonic()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()
        os.close(self._handle)

    def poll(self) -> bool:
        """Takes what has come; whether the process still runs."""
        _take(self.run, self.live)
        self.run.seconds = time.monotonic() - self.run.started
        return not select.select([self._handle], [], [], 0)[0]


def watch(pid: int, *, rate: int = RATE, children: bool = True, reuse: int = 0) -> Watch:
    """Begins to sample a running process, for who looks at it while it runs. `reuse` is what
    `watch` is to `record`."""
    _check((), pid, None, rate)
    _check_watch(reuse)
    wanted = Wanted("clock", rate, children, watch=reuse)
    log = heap_log.of_process(pid)
    return Watch(
        Run(
            folder=Path(f"process {pid}"),
            command=[meta.as_text(word) for word in command_of(pid)],
            wanted=wanted,
            heap_logs=log and log.parent,
            described={**wanted.described(), "heap": log is not None, "pid": pid},
            on_progress=silent,
            attached=True,
        ),
        pid,
    )


def save(watched: Watch) -> Recording:
    """What has been seen so far, as a recording in this folder; the watching goes on."""
    program = Path(watched.run.command[0]).name
    run = dataclasses.replace(watched.run, folder=new_folder(None, program, force=False))
    write(run, images_of(run, watched.live), watched.live)
    if run.failure is not None:
        raise run.failure
    return Recording(run.folder)


def _handle_of(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError as error:
        raise StallscopeError(
            f"there is no process {pid}", now="ps, and give the number of one"
        ) from error


def _warnings(live: _engine.Live) -> tuple[str, ...]:
    if live.samples == 0:
        return ("no sample came: the program used less processor time than one takes",)
    if live.lost > 0.01 * (live.samples + live.lost):
        return (f"{live.lost:,} samples were lost: the kernel's buffers were full",)
    return ()
