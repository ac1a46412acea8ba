# SPDX-License-Identifier: Apache-2.0
"""Workers of a sweep on this machine: processes of their own, one task each at a time.

A worker that dies is replaced and its task given to another one, a few times; then the task has
failed. Whichever way the sweep ends, no worker stays.
"""

from __future__ import annotations

import contextlib
import selectors
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from typing import IO, Any

import msgspec

from stallscope.errors import StallscopeError
from stallscope.scale.cells import Done, Failure, Task
from stallscope.scale.fleet_rows import IngestDone, IngestTask
from stallscope.scale.piece_task import CorePieceDone, CorePieceTask, PagePieceDone, PagePieceTask
from stallscope.scale.shard_task import ShardDone, ShardTask

Work = Task | ShardTask | IngestTask | CorePieceTask | PagePieceTask
Answer = Done | ShardDone | IngestDone | CorePieceDone | PagePieceDone

TRIES = 3  # of a task whose workers die


class _Worker:
    def __init__(self) -> None:
        # Isolated from the current folder, and from the terminal's signals: Ctrl-C is the sweep's.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "stallscope.scale.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input: IO[bytes] = self.process.stdin
        self.output: IO[bytes] = self.process.stdout
        self.task: Work | None = None

    def give(self, task: Work) -> None:
        self.task = task
        try:
            self.input.write(msgspec.json.encode(task) + b"\n")
            self.input.flush()
        except OSError:
            pass  # it is dead, as its output will tell

    def end(self) -> int:
        self.process.kill()
        for pipe in (self.input, self.output):
            with contextlib.suppress(OSError):
                pipe.close()
        return self.process.wait()


class Pool:
    """`for done in Pool(jobs).run(tasks)`: answers in the order in which they come."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._workers: list[_Worker] = []
        self._waiting: deque[Work] = deque()
        self._tries: dict[int, int] = {}
        self._chosen = selectors.DefaultSelector()

    def run(self, tasks: Sequence[Work]) -> Generator[Any, None, None]:
        self._waiting.extend(tasks)
        try:
            for _ in range(min(self._jobs, len(tasks))):
                self._start()
            while self._workers:
                for ready, _ in self._chosen.select():
                    yield from self._hear(ready.data)
        finally:
            self._close()

    def pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers]

    def _start(self) -> None:
        try:
            worker = _Worker()
        except OSError as error:
            if self._workers:
                return  # those that run do its work
            raise StallscopeError("cannot start a worker", error.strerror or "") from error
        self._workers.append(worker)
        self._chosen.register(worker.output, selectors.EVENT_READ, worker)
        self._next(worker)

    def _next(self, worker: _Worker) -> None:
        if self._waiting:
            worker.give(self._waiting.popleft())
        else:
            self._remove(worker)

    def _hear(self, worker: _Worker) -> Iterator[Answer]:
        line = worker.output.readline()
        if line.endswith(b"\n"):
            done = msgspec.json.decode(line, type=Answer)
            worker.task = None
            self._next(worker)
            yield done
            return
        lost, status = worker.task, self._remove(worker)
        if lost is not None:
            self._tries[lost.number] = self._tries.get(lost.number, 0) + 1
            if self._tries[lost.number] < TRIES:
                self._waiting.appendleft(lost)
            else:
                yield Done(lost.number, failure=_died(status))
        if self._waiting:
            self._start()

    def _remove(self, worker: _Worker) -> int:
        self._chosen.unregister(worker.output)
        self._workers.remove(worker)
        return worker.end()

    def _close(self) -> None:
        for worker in list(self._workers):
            self._remove(worker)
        self._chosen.close()


def _died(status: int) -> Failure:
    how = f"signal {-status}" if status < 0 else f"status {status}"
    return Failure(f"its workers died {TRIES} times, the last by {how}", "is there enough memory?")
