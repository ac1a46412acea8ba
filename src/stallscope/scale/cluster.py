# SPDX-License-Identifier: Apache-2.0
"""Workers of a sweep on a dask cluster: whatever machines `dask worker` runs on.

Tasks and answers are the same JSON as those of local workers. A worker that dies is the scheduler's
business; when the scheduler itself goes away, whatever was not answered is asked again of the one
that comes back at its address. Recordings go by their path, so workers must see the same files.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from stallscope import __version__
from stallscope.errors import StallscopeError
from stallscope.scale.cells import Done, Failure, Task
from stallscope.scale.worker import answer

CONNECT = 5.0  # seconds for the first try
WORKERS = 30.0  # seconds for a worker to come
PATIENCE = 120.0  # seconds for a scheduler to come back
AHEAD = 3  # tasks given to the cluster for each of its threads
TRIES = 3  # of a task whose workers die
PAUSE = 0.02  # seconds between two looks


def check_worker(paths: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Runs on a worker: its version, and which recordings it cannot see."""
    from stallscope import results
    from stallscope.recording import Recording

    missing = []
    for path, identity in paths:
        try:
            if results.identity(Recording(Path(path)).meta) != identity:
                missing.append(path)
        except (StallscopeError, OSError):
            missing.append(path)
    return {"version": __version__, "missing": missing}


class Cluster:
    def __init__(self, address: str, tls: Mapping[str, str]) -> None:
        try:
            import distributed
        except ImportError:
            raise StallscopeError(
                "--cluster needs dask", "it is not installed", "pip install 'stallscope[cluster]'"
            ) from None
        self._dask: Any = distributed
        self._address = address
        self._security = self._make_security(tls)
        self._tries: dict[int, int] = {}

    def _make_security(self, tls: Mapping[str, str]) -> Any:
        if not tls:
            return None
        for name, file in tls.items():
            if not Path(file).is_file():
                raise StallscopeError(f"--tls-{name} {file}: there is no such file")
        names = {"ca": "tls_ca_file", "cert": "tls_client_cert", "key": "tls_client_key"}
        words = {names[name]: file for name, file in tls.items()}
        return self._dask.Security(require_encryption=True, **words)

    def run(self, tasks: Sequence[Task]) -> Generator[Done, None, None]:
        """Answers in the order in which they come."""
        left = {task.number: task for task in tasks}
        with _quiet():
            client = self._connect(CONNECT)
            try:
                self._check(client, tasks)
                while left:
                    for done in self._answers(client, list(left.values())):
                        del left[done.number]
                        yield done
                    if left:
                        _close(client)
                        client = self._connect(PATIENCE)
            finally:
                _close(client)

    def _connect(self, patience: float) -> Any:
        until = time.monotonic() + patience
        while True:
            try:
                return self._dask.Client(
                    self._address,
                    security=self._security,
                    timeout=min(CONNECT, patience),
                    set_as_default=False,
                )
            except (OSError, ValueError, TypeError, RuntimeError) as error:
                if time.monotonic() < until and isinstance(error, OSError) and self._tries_again:
                    time.sleep(0.5)
                    continue
                raise StallscopeError(
                    f"cannot reach a dask scheduler at {self._address}",
                    str(error).splitlines()[0] if str(error) else type(error).__name__,
                    "dask scheduler, and --cluster tcp://HOST:8786",
                ) from error

    _tries_again = False  # after a first connection only: a wrong address is told at once

    def _check(self, client: Any, tasks: Sequence[Task]) -> None:
        """That all workers have this version and see the recordings."""
        self._wait_for_workers(client)
        self._tries_again = True
        paths = sorted({(task.recording, task.identity) for task in tasks})
        try:
            found = client.run(check_worker, paths)
        except Exception as error:
            raise StallscopeError(
                f"the workers of {self._address} cannot run Stallscope",
                str(error).splitlines()[0] if str(error) else type(error).__name__,
                f"install stallscope {__version__} where they run",
            ) from error
        for worker, facts in found.items():
            if facts["version"] != __version__:
                raise StallscopeError(
                    f"the worker {worker} has stallscope {facts['version']}",
                    f"here it is {__version__}, and other versions may count otherwise",
                    "install the same version everywhere",
                )
            if facts["missing"]:
                raise StallscopeError(
                    f"the worker {worker} does not see {facts['missing'][0]}",
                    "recordings are read by their path",
                    "put them where all workers see the same folder",
                )

    def _wait_for_workers(self, client: Any) -> None:
        try:
            client.wait_for_workers(1, timeout=WORKERS)
        except (OSError, TimeoutError):
            raise StallscopeError(
                f"{self._address} has no workers",
                f"none came within {WORKERS:.0f} seconds",
                f"dask worker {self._address}",
            ) from None

    def _answers(self, client: Any, tasks: Sequence[Task]) -> Iterator[Done]:
        """Until all are answered or the scheduler is lost."""
        waiting = deque(tasks)
        flying: dict[int, tuple[Any, Task]] = {}
        while waiting or flying:
            room = AHEAD * max(1, _threads(client)) - len(flying)
            while waiting and room > 0:
                task = waiting.popleft()
                future = client.submit(answer, msgspec.json.encode(task), pure=False, retries=0)
                flying[task.number] = (future, task)
                room -= 1
            ended = [n for n, (future, _) in flying.items() if future.status != "pending"]
            for number in ended:
                future, task = flying.pop(number)
                done = self._answered(future, task)
                if done is not None:
                    yield done
                elif future.status in ("cancelled", "lost"):
                    return
                else:
                    waiting.append(task)
            if client.status not in ("running", "connecting"):
                return
            if not ended:
                time.sleep(PAUSE)

    def _answered(self, future: Any, task: Task) -> Done | None:
        """None where it is to be asked again."""
        if future.status == "finished":
            try:
                done: Done = msgspec.json.decode(future.result(timeout=CONNECT), type=Done)
                return done
            except (OSError, TimeoutError, self._dask.CancelledError):
                return None  # its worker went away with the answer
        if future.status != "error":
            return None
        self._tries[task.number] = self._tries.get(task.number, 0) + 1
        if self._tries[task.number] < TRIES:
            return None
        return Done(task.number, failure=Failure(f"its workers failed: {future.exception()!r}"))


def _threads(client: Any) -> int:
    with contextlib.suppress(Exception):  # whatever a client without scheduler raises
        return sum(client.nthreads().values())
    return 1


def _close(client: Any) -> None:
    with contextlib.suppress(Exception):
        client.close(timeout=2)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What dask logs of lost connections is no news to a person who watches a sweep."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    before = {name: logging.getLogger(name).level for name in ("distributed", *names)}
    for name in before:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
