# SPDX-License-Identifier: Apache-2.0
"""Has a program's heap blocks laid out by a policy: a file that the preloaded near allocator reads.

Undone by starting the program without it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from stallscope.analyses import layout as analyses
from stallscope.analyses.layout import Layout
from stallscope.errors import StallscopeError

if TYPE_CHECKING:
    from stallscope.analyses.objects import MissView

LIBRARY = "libstallscope_near_preload.so"
POLICY = "STALLSCOPE_NEAR_POLICY"


def layout(
    view: MissView,
    *,
    predict: bool = False,
    confirm: bool = False,
    policy: str | Path | None = None,
    runs: int = 5,
) -> Layout:
    """What to place; what that will do, by replay, when asked for or when a policy is given; what
    it did, when the program was run again (`runs` times natively each way), if that is wanted."""
    made = analyses.layout(view)
    text = policy_of(made) if policy is None else read(Path(policy))
    if predict or confirm or policy is not None:
        made = analyses.predicted(made, view, moved(view, text))
    if confirm:
        from stallscope.actions import confirm as again

        made = again.confirm(made, view, text, runs)
    return made


def policy_of(made: Layout) -> str:
    """The text of a policy file; runtime/near/preload/rules.h describes it."""
    lines = ["stallscope-near-policy 1", f"# from {_plain(made.recording)}, {made.machine}"]
    for row in made.rows:
        lines.append(f"# {row.share:.1%} {_plain(row.object)}")
        what = "packed" if row.packed else f"line {row.line} step {row.step}"
        lines.append(f"site {row.module}+{row.offset:#x} {what}")
    return "\n".join(lines) + "\n"


def moved(view: MissView, text: str) -> MissView:
    """The same replay with heap blocks where a policy puts them: kept traces are run again."""
    from stallscope import machines, processes, results
    from stallscope.analyses.objects import MissView

    before = view.replay.result
    machine = machines.from_engine(before.machine, before.machine_name)
    parts = []
    for image in view.replay.images:
        if not image.meta.trace:
            raise StallscopeError(
                f"{image.path.name} has no trace, so what a layout would do cannot be predicted",
                "it was recorded without --trace",
                "stallscope record --trace -- PROGRAM",
            )
        sites = ((site, *address) for site, address in analyses.return_addresses(image).items())
        moves = results.Moves(text, tuple(sites))
        parts.append(results.replay(image, machine, before.machine_name, before.probe, moves))
    after = parts[0] if len(parts) == 1 else processes.Replays(view.replay.images[0], parts)
    return MissView(after, view.depth, view.wrappers)


def write(text: str, output: Path) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StallscopeError(f"cannot write {output}", str(error.strerror)) from error


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise StallscopeError(f"cannot read the policy {path}", why or "") from error


def environment(policy_file: Path) -> dict[str, str]:
    """What to start a program with."""
    return {"LD_PRELOAD": str(library()), POLICY: str(policy_file.resolve())}


def library() -> Path:
    extension = importlib.util.find_spec("stallscope._engine")
    if extension is not None and extension.origin is not None:
        found = Path(extension.origin).parent / "runtime" / LIBRARY
        if found.exists():
            return found
    raise StallscopeError(
        f"{LIBRARY} is missing", "it lies beside the compiled extension", "reinstall stallscope"
    )


def _plain(name: str) -> str:
    """Names come from programs; a line break in one must not become a line of the policy."""
    return "".join(c if c.isprintable() else "?" for c in name)
