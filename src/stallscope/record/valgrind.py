# SPDX-License-Identifier: Apache-2.0
"""The `valgrind` source: every access of a program and its children, without any counter."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from stallscope import __version__, _engine, machines, meta, results, tracking
from stallscope.errors import StallscopeError
from stallscope.machines import Machine
from stallscope.meta import Meta
from stallscope.record import PAGES, PROBES, Recorded, choose
from stallscope.record.life import (
    FORWARDED,
    FROM_THE_KERNEL,
    Progress,
    ending,
    environment,
    exit_status,
    host_facts,
    moment,
    silent,
    wait_for_signal,
)
from stallscope.record.output import new_folder
from stallscope.record.preflight import Target, preflight
from stallscope.record.session import Session
from stallscope.record.tool import OWN_FAILURE, CaptureOptions, capture_command
from stallscope.record.value_targets import ValueTargets, said_of, value_targets
from stallscope.record.writer import Quality, RecordingWriter
from stallscope.recording import Recording
from stallscope.results import Probe
from stallscope.sampling import make_probe
from stallscope.tables import schemas
from stallscope.tracking import PageOptions

POLL_SECONDS = 0.05
CLOSING_POLL_SECONDS = 0.002  # once the target has ended and only the ring has to be read


@dataclass
class Run:
    """One recording being made."""

    target: Target
    folder: Path
    options: CaptureOptions
    trace: bool
    machine: Machine
    machine_name: str
    probe: Probe
    pages: PageOptions | None
    max_bytes: int
    on_progress: Callable[[Progress], None]
    described: dict[str, Any]
    values: tuple[str, ...] = ()  # targets whose values are kept
    value_targets: ValueTargets | None = None  # None: all of memory
    values_found: set[int] = field(default_factory=set)  # of these, by number
    writer: RecordingWriter = field(default_factory=RecordingWriter)
    metas: dict[str, Meta] = field(default_factory=dict)
    waited: dict[int, int] = field(default_factory=dict)
    messages: list[StallscopeError] = field(default_factory=list)
    unrecorded: list[str] = field(default_factory=list)  # programs that ran as they are
    status: int | None = None  # of the root process, as waitpid gives it
    seconds: float = 0.0


def first_meta(run: Run) -> Meta:
    return Meta(
        format_version=schemas().format_version,
        stallscope=__version__,
        state="recording",
        name="",
        parent=None,
        command=[meta.as_text(word) for word in run.target.command],
        folder=meta.as_text(str(Path.cwd())),
        created=moment(),
        source="valgrind",
        machine=run.machine_name,
        options=run.described,
        host={},
        trace=run.trace,
    )


def _while_it_starts(run: Run, opening: Meta) -> Meta:
    """What takes a while and can be done beside the target rather than before or after it."""
    import pyarrow.parquet  # noqa: F401 - tables will be written

    opening = msgspec.structs.replace(opening, host=host_facts())
    run.writer.guard(lambda: meta.write(opening, run.folder))
    return opening


def _recorder(run: Run, session: Session) -> _engine.Recorder:
    simulates = run.machine.simulates
    return _engine.Recorder(
        str(session.folder),
        str(run.folder),
        run.trace,
        run.max_bytes,
        run.writer.symbols,
        run.machine.to_engine() if simulates else None,
        results.engine_options(run.machine, run.probe) if simulates else {},
        None if run.pages is None else tracking.engine_options(run.pages),
        run.options.values,
        None if run.value_targets is None else run.value_targets.to_engine(),
    )


def run_target(run: Run) -> int:
    """Runs the target to its end and writes its recording; the target's wait status."""
    with Session(run.folder) as session:
        recorder = _recorder(run, session)
        command = capture_command(
            session.folder, run.options, recorder.sieve, run.target.argv[0], run.target.argv[1:]
        )
        opening = first_meta(run)
        meta.write(opening, run.folder)
        blocked = {*FORWARDED, signal.SIGCHLD}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        try:
            started = time.monotonic()
            pid = os.posix_spawn(command[0], command, environment(), setsigmask=before)
            try:
                recorder.start(pid)
                opening = _while_it_starts(run, opening)
                _watch(run, recorder, opening, pid, started, blocked)
            finally:
                recorder.stop(abandon=True)
            _drain(run, recorder, opening)
            _check_start(run, session, pid)
            run.unrecorded = sorted(set(session.unrecorded()))
            _settle(run, pid)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert run.status is not None
    return run.status


def _watch(
    run: Run,
    recorder: _engine.Recorder,
    opening: Meta,
    pid: int,
    started: float,
    blocked: set[signal.Signals],
) -> None:
    """Until the target and its children have ended, or somebody stops waiting for the latter."""
    while True:
        patience = POLL_SECONDS if run.status is None else CLOSING_POLL_SECONDS
        info = wait_for_signal(blocked, patience)
        if info is not None and info.si_signo in FORWARDED:
            if run.status is not None:
                return
            if info.si_code != FROM_THE_KERNEL:
                os.kill(pid, info.si_signo)
        if run.status is None:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                run.status = status
                run.seconds = time.monotonic() - started
        _drain(run, recorder, opening)
        instructions, size, running, _ = recorder.progress()
        if run.status is not None and running == 0:
            recorder.stop(abandon=False)
            return
        run.on_progress(
            Progress(
                time.monotonic() - started,
                size,
                running,
                run.status is not None,
                instructions=instructions,
            )
        )


def _drain(run: Run, recorder: _engine.Recorder, opening: Meta) -> None:
    # In this order: a process that has finished has no rows to come behind those taken after it.
    finished = recorder.take_finished()
    run.writer.take_batches(recorder)
    for process in finished:
        facts = _facts(run, process, opening)
        quality = [
            Quality("stream", "error", ": ".join(filter(None, error[:2])))
            for error in process.errors
        ]
        quality += [Quality("values", "info", said_of(run.values))] if run.values else []
        run.values_found |= {i for i, found in enumerate(process.values_found) if found}
        run.messages += [StallscopeError(*error, status=OWN_FAILURE) for error in process.errors]
        run.metas[facts.name] = run.writer.finish(process, facts, quality)
        _keep_simulation(run, process, run.metas[facts.name])
        _keep_pages(run, process, run.metas[facts.name])


def _keep_simulation(run: Run, process: _engine.Process, facts: Meta) -> None:
    """What the machine beside the process found, as if its trace had been replayed."""
    found = process.simulation()
    if found is None or run.writer.failure is not None:
        return
    path = Path(process.folder)
    run.writer.guard(
        lambda: results.store(path, facts, run.machine, run.machine_name, run.probe, found)
    )


def _keep_pages(run: Run, process: _engine.Process, facts: Meta) -> None:
    """Its page references, whose log was written piece by piece meanwhile."""
    if run.pages is None or run.writer.failure is not None:
        return
    path, options = Path(process.folder), run.pages
    log = run.writer.pages.pop(process.folder, None)

    def fill(append: Callable[[Any], None]) -> dict[str, Any]:
        try:
            found = process.pages()
        except _engine.EngineError as error:
            raise StallscopeError(*error.args, status=OWN_FAILURE) from error
        assert found is not None
        append(found["tables"].pop(tracking.LOG))
        return found

    run.writer.guard(lambda: tracking.store(path, facts, options, fill, log))


def _facts(run: Run, process: _engine.Process, opening: Meta) -> Meta:
    life = process.target.life()
    run.waited |= {pid: status for pid, status in life["waited"] if not os.WIFSTOPPED(status)}
    is_root = Path(process.folder) == run.folder
    seconds = (life["ended_ns"] - life["started_ns"]) / 1e9 if life["ended"] else None
    exited = life["ended"] and life["exit_code"] <= 255  # else its parent knows the signal
    how = "exec" if life["replaced"] else "exit" if exited else "killed"
    return msgspec.structs.replace(
        opening,
        name=process.name,
        parent=None if is_root else _parent(process.name, life),
        command=opening.command if is_root else [meta.as_text(word) for word in life["command"]],
        created=opening.created if is_root else moment(life["started_ns"]),
        pid=life["pid"],
        forked=life["forked"],
        ending=how,
        exit_code=life["exit_code"] if exited else None,
        complete=process.complete,
        counted=process.counted,
        trace=run.trace and process.stream_bytes > 0,
        measured_all=life["measured_all"],
        seconds=seconds,
        allocations=life["allocations"],
        frees=life["frees"],
        peak_heap_bytes=life["peak_heap_bytes"],
        stream_bytes=process.stream_bytes,
    )


def _parent(name: str, life: dict[str, Any]) -> str:
    """A forked child names its parent process, until `_settle` knows which image of it that was;
    after an exec the parent is the image before."""
    pid, image = name.split(".")
    if life["forked"] or image == "0":
        return str(life["parent_pid"])
    return f"{pid}.{int(image) - 1}"


def _check_start(run: Run, session: Session, pid: int) -> None:
    """When no recording came out, the capture tool's log says why."""
    log = session.log(pid)
    if not run.metas:
        raise StallscopeError(
            f"{run.target.command[0]} could not be recorded",
            log.strip().splitlines()[-1] if log.strip() else "the capture tool did not start",
            "stallscope doctor",
            status=OWN_FAILURE,
        )


def _settle(run: Run, pid: int) -> None:
    """Writes what only the whole tree tells: how each process ended, which its parent knows when a
    signal did it, and which image of its parent a child was forked from."""
    if run.status is not None:
        run.waited[pid] = run.status
    by_age = sorted(run.metas.values(), key=lambda m: (m.created, m.name))
    last_image = {m.pid: m.name for m in by_age}
    for m in by_age:
        fresh = m
        if m.parent is None:
            fresh = msgspec.structs.replace(fresh, seconds=run.seconds)
        elif "." not in m.parent:
            fresh = msgspec.structs.replace(fresh, parent=_image_before(m, by_age))
        if m.pid in run.waited and last_image[m.pid] == m.name:
            fresh = msgspec.structs.replace(fresh, **ending(run.waited[m.pid]))
        if fresh != m and run.writer.failure is None:
            folder = run.folder if m.parent is None else run.folder / "children" / m.name
            meta.write(fresh, folder)


def _image_before(child: Meta, by_age: list[Meta]) -> str | None:
    """The image that process `child.parent` had when the child began; itself when not recorded."""
    images = [m.name for m in by_age if str(m.pid) == child.parent and m.created <= child.created]
    return images[-1] if images else child.parent


def record(
    command: Sequence[str],
    *,
    output: str | Path | None = None,
    force: bool = False,
    machine: str = "default",
    probes: Sequence[str] = (),
    trace: bool = False,
    values: str | Sequence[str] = (),
    children: bool = True,
    heap: bool = True,
    from_function: str | None = None,
    to_function: str | None = None,
    skip: int = 0,
    max_instructions: int = 0,
    max_size: int = 0,
    turn: int = 2000,
    watched: Sequence[str] = (),
    on_progress: Callable[[Progress], None] | None = None,
    **sampling: Any,
) -> Recorded:
    """Run `command` to its end and record every access.

    `values` keeps what accesses read or wrote beside the trace, up to eight bytes of it: to memory
    in the words of stallscope.watch_targets, or to `all` of it.
    `watched`: lines of stallscope.record.watch_spec; accesses to that memory become events.
    `sampling` says how the machine beside it samples, in the words of stallscope.sampling: event,
    period, seed, sampling, min_latency, handler_cost, perturb, budget."""
    _check(probes, turn, (skip, max_instructions, max_size))
    asked = (values,) if isinstance(values, str) else tuple(values)
    if asked and not trace:
        raise StallscopeError("--values are kept beside a trace", now="--trace --values TARGET")
    model = machines.load(machine)
    pages = PageOptions(**msgspec.to_builtins(model.path)) if PAGES in probes else None
    probes = [name for name in probes if name != PAGES]
    probe = _probe(model, probes, sampling)
    target = preflight(command)
    placed = value_targets(asked, Path(target.executable).resolve()) if asked else None
    options = CaptureOptions(
        stream=trace or model.simulates or pages is not None,
        values=bool(asked),
        children=children,
        heap=heap,
        from_function=from_function,
        to_function=to_function,
        skip=skip,
        max_instructions=max_instructions,
        turn=turn,
        watch=tuple(watched),
    )
    run = Run(
        target=target,
        folder=new_folder(output, target.program, force),
        options=options,
        trace=trace,
        machine=model,
        machine_name=machine,
        probe=probe,
        pages=pages,
        max_bytes=max_size,
        on_progress=on_progress or silent,
        values=asked,
        value_targets=placed,
        described={
            "trace": trace,
            "probes": [*probes, *([PAGES] if pages else [])],
            "pages": None if pages is None else msgspec.to_builtins(pages),
            "sampling": sampling,
            "max_size": max_size,
            **({"values": list(asked)} if asked else {}),
            **options.described(),
        },
    )
    return _carry_out(run)


def _check(probes: Sequence[str], turn: int, limits: Sequence[int]) -> None:
    for name in probes:
        choose("probe", name, (*PROBES, PAGES))
    if turn < 1 or min(limits) < 0:
        raise StallscopeError("--turn must be at least 1, and limits cannot be negative")


def _probe(machine: Machine, probes: Sequence[str], sampling: dict[str, Any]) -> Probe:
    if machine.simulates:
        asked: dict[str, Any] = {name: name in probes for name in PROBES[1:]}
        return make_probe(machine, **asked, **sampling)
    if sampling:
        words = ", ".join(f"--{word.replace('_', '-')}" for word in sampling)
        raise StallscopeError(
            f"{words}: there is no machine that could sample", now="--machine default"
        )
    return Probe()


def _carry_out(run: Run) -> Recorded:
    """Runs the target; a folder in which nothing came to lie goes again."""
    try:
        status = run_target(run)
    except StallscopeError:
        if not run.metas:
            shutil.rmtree(run.folder, ignore_errors=True)
        raise
    failures = [*run.messages, *([run.writer.failure] if run.writer.failure else [])]
    warnings = (*run.target.warnings, *map(_why_unrecorded, run.unrecorded), *_not_found(run))
    return Recorded(Recording(run.folder), exit_status(status), warnings, _one_a_reason(failures))


def _not_found(run: Run) -> list[str]:
    """Of --values, what cannot be known before: heap blocks that nobody made."""
    asked = run.value_targets.asked if run.value_targets else ()
    return [
        f"--values {text}: there was no such memory, so no value of it was kept"
        for number, text in enumerate(asked)
        if number not in run.values_found
    ]


def _why_unrecorded(program: str) -> str:
    return f"{program} ran unrecorded: it changes the user, or is for another kind of processor"


def _one_a_reason(failures: Sequence[StallscopeError]) -> tuple[StallscopeError, ...]:
    """A full disk refuses the streams and tables of every process; once is enough to know."""
    first: dict[str, StallscopeError] = {}
    for failure in failures:
        first.setdefault(failure.why or failure.what, failure)
    return tuple(first.values())
