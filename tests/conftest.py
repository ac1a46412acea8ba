# SPDX-License-Identifier: Apache-2.0
"""What tests of real targets share: the command, built programs, recordings that are verified, and
one browser for the tests of a module (Debian's chromium, steered by Playwright)."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

STALLSCOPE = Path(sys.executable).with_name("stallscope")
PROGRAMS = Path(__file__).resolve().parent / "programs"
PATIENCE = 300  # seconds; both cores may be busy with something else


# A shell starts its background jobs with some signals ignored, and targets would inherit that.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(
            _number,
            signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL,
        )


@functools.cache
def builder() -> ModuleType:
    """tests/programs/build.py, which is no module of any package."""
    name = "stallscope_test_programs"
    spec = importlib.util.spec_from_file_location(name, PROGRAMS / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Ran:
    """What a command left: a status as a shell shows it, and its two outputs."""

    status: int
    out: bytes
    err: bytes

    @property
    def stdout(self) -> str:
        return self.out.decode(errors="surrogateescape")

    @property
    def stderr(self) -> str:
        return self.err.decode(errors="surrogateescape")


def run(
    *words: object,
    stdin: bytes = b"",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Ran:
    """Runs a command to its end. What pytest tells in the environment is not passed on: it differs
    from test to test, and stacks begin below the environment."""
    passed = dict(os.environ if env is None else env)
    passed.pop("PYTEST_CURRENT_TEST", None)
    command = [word if isinstance(word, bytes) else str(word) for word in words]
    ran = subprocess.run(
        command, input=stdin, capture_output=True, timeout=PATIENCE, cwd=cwd, env=passed
    )
    status = ran.returncode if ran.returncode >= 0 else 128 - ran.returncode
    return Ran(status, ran.stdout, ran.stderr)


@dataclass
class Made:
    """A recording, and how the command that made it ended."""

    ran: Ran
    path: Path

    @property
    def status(self) -> int:
        return self.ran.status

    @functools.cached_property
    def info(self) -> Any:
        from stallscope.analyses.info import info
        from stallscope.recording import open_recording

        return info(open_recording(self.path))

    @functools.cached_property
    def shown(self) -> str:
        """What `info` shows to a person, in lines as wide as they like to be."""
        ran = run(STALLSCOPE, "info", self.path, env={**os.environ, "COLUMNS": "500"})
        assert ran.status == 0, ran.stderr
        return ran.stdout

    def images(self) -> list[Any]:
        from stallscope.recording import open_recording

        return list(open_recording(self.path).processes())

    def rows(self, table: str, image: int = 0) -> list[dict[str, Any]]:
        """A table of one process image."""
        rows: list[dict[str, Any]] = self.images()[image].table(table).to_pylist()
        return rows

    def heap(self, image: int = 0) -> list[dict[str, Any]]:
        return [row for row in self.rows("object", image) if row["kind"] == "heap"]

    def events(self, *kinds: str, image: int = 0) -> list[dict[str, Any]]:
        return [row for row in self.rows("event", image) if row["kind"] in kinds]


def verify(path: Path) -> None:
    """The invariant checker accepts the recording, whatever became of its target."""
    from stallscope.analyses.verify import verify as check
    from stallscope.recording import open_recording

    verdict = check(open_recording(path))
    broken = [row for row in verdict.rows if row.severity == "error"]
    assert verdict.errors == 0, f"{path}: {broken}"


@dataclass
class Recorder:
    """Makes recordings below one folder, and remembers them so that all can be verified."""

    folder: Path
    made: list[Path] = field(default_factory=list)

    def place(self) -> Path:
        """Where the next recording goes; a test that starts the recorder itself asks for it."""
        self.made.append(self.folder / f"{len(self.made)}.stallscope")
        return self.made[-1]

    def __call__(
        self,
        *command: object,
        options: Sequence[object] = (),
        stdin: bytes = b"",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        source: str = "valgrind",
    ) -> Made:
        path = self.place()
        # What capture does is the same with and without a machine beside it, but quicker without.
        machine = ["--machine", "none"] if source == "valgrind" else []
        words = [STALLSCOPE, "record", "-q", "--source", source, *machine, "-o", path, *options]
        words += ["--", *command]
        ran = run(*words, stdin=stdin, cwd=cwd, env=env)
        assert (path / "meta.json").exists(), ran.stderr
        return Made(ran, path)

    def verify(self) -> None:
        for path in self.made:
            if (path / "meta.json").exists():
                verify(path)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Builds a test program when it is first asked for; options are those of build.py."""
    folder = tmp_path_factory.mktemp("programs")

    @functools.cache
    def build(name: str, **options: Any) -> Path:
        kind = "-".join(sorted(f"{key}={value}" for key, value in options.items())) or "plain"
        path: Path = builder().build(name, folder / kind.replace("/", "_"), **options)
        return path

    return build


@pytest.fixture(scope="session")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds a workload when it is first asked for."""
    from stallscope import workloads

    folder = tmp_path_factory.mktemp("workloads")
    return functools.cache(lambda name: workloads.build(name, folder))


@pytest.fixture
def stallscope() -> Callable[..., Ran]:
    """The command itself: stallscope("info", path)."""
    return functools.partial(run, STALLSCOPE)


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Recorder]:
    """Records a program; what it made is verified after the test."""
    recorder = Recorder(tmp_path)
    yield recorder
    recorder.verify()


@pytest.fixture(scope="module")
def shared_record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    """The same for recordings that several tests of a module look at."""
    recorder = Recorder(tmp_path_factory.mktemp("recordings"))
    yield recorder
    recorder.verify()


BROWSER_PATIENCE = 60_000  # milliseconds; both cores may be busy with something else


@dataclass
class Tab:
    """A page in the browser, with all that went wrong and all that it asked the network for."""

    page: Any
    troubles: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def tab(self, title: str) -> None:
        self.page.get_by_role("tab", name=title, exact=True).click()

    def panel(self) -> Any:
        return self.page.locator("[role=tabpanel]:not([hidden])")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-gpu"],
            timeout=BROWSER_PATIENCE,
        )
        yield started
        started.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Tab]]:
    """Opens an address; what the page logs or asks for is remembered."""
    contexts = []

    def open_(address: str | Path, **options: Any) -> Tab:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(BROWSER_PATIENCE)
        seen = Tab(page)
        page.on("console", lambda m: seen.troubles.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: seen.troubles.append(str(error)))
        page.on("dialog", lambda dialog: (seen.troubles.append("a dialog"), dialog.dismiss()))
        page.on("request", lambda request: seen.requests.append(request.url))
        page.goto(address.as_uri() if isinstance(address, Path) else address)
        return seen

    yield open_
    for context in contexts:
        context.close()
