# SPDX-License-Identifier: Apache-2.0
"""Where the capture tool lies and how it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stallscope import _engine
from stallscope.errors import StallscopeError

OWN_FAILURE = 125


@dataclass(frozen=True)
class CaptureOptions:
    """What capture is told; the union of what every probe needs."""

    stream: bool = False  # every block execution and address, not only counts
    values: bool = False  # ... with what was read and written
    children: bool = True
    heap: bool = True
    from_function: str | None = None
    to_function: str | None = None
    skip: int = 0
    max_instructions: int = 0
    turn: int = 2000
    watch: tuple[str, ...] = ()  # lines that say what memory is watched

    def described(self) -> dict[str, Any]:
        """By the names that the options have for people."""
        return {
            "children": self.children,
            "heap": self.heap,
            "from": self.from_function,
            "to": self.to_function,
            "skip": self.skip,
            "max_instructions": self.max_instructions,
            "turn": self.turn,
        }


def capture_folder() -> Path:
    """The folder with the launcher, the tool and its preload libraries."""
    folder = Path(_engine.__file__).parent / "_capture"
    if not (folder / "launch").is_file():
        raise StallscopeError(
            "the capture tool is not installed",
            f"{folder} has no launcher",
            "build the package with Debian's valgrind package installed",
            status=OWN_FAILURE,
        )
    return folder


def capture_command(
    session: Path, options: CaptureOptions, sieve: str, program: str, arguments: Sequence[str]
) -> list[str]:
    """The command line that runs `program` under the capture tool. `sieve` is the recorder's."""
    command = [
        str(capture_folder() / "launch"),
        "--tool=stallscope",
        "-q",
        "--vgdb=no",
        "--run-libc-freeres=no",
        "--run-cxx-freeres=no",
        "--fair-sched=yes",
        # Else a fork opens a log of its own, and dies when the recorder's folder is gone.
        "--child-silent-after-fork=yes",
        f"--log-file={session}/log-%p",
        f"--trace-children={'yes' if options.children else 'no'}",
        f"--ss-folder={session}",
        f"--ss-stream={'yes' if options.stream else 'no'}",
        f"--ss-children={'yes' if options.children else 'no'}",
        f"--ss-heap={'yes' if options.heap else 'no'}",
        f"--ss-turn={options.turn}",
    ]
    if options.values:
        command.append("--ss-values=yes")
    if options.watch:
        spec = session / "watched"
        spec.write_text("\n".join(options.watch) + "\n")
        command.append(f"--ss-watch={spec}")
    if sieve:
        command.append(f"--ss-sift={sieve}")
    if options.from_function:
        command.append(f"--ss-from={options.from_function}")
    if options.to_function:
        command.append(f"--ss-to={options.to_function}")
    if options.skip:
        command.append(f"--ss-skip={options.skip}")
    if options.max_instructions:
        command.append(f"--ss-max={options.max_instructions}")
    return [*command, program, *arguments]
