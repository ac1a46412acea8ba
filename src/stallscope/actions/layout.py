# SPDX-License-Identifier: Apache-2.0
"""Has a program's heap blocks laid out by a policy: a file that the preloaded near allocator reads.

Undone by starting the program without it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from stallscope.analyses.layout import Layout
from stallscope.errors import StallscopeError

LIBRARY = "libstallscope_near_preload.so"
POLICY = "STALLSCOPE_NEAR_POLICY"


def policy(made: Layout) -> str:
    """The text of a policy file; runtime/near/preload/policy.h describes it."""
    lines = ["stallscope-near-policy 1", f"# from {made.recording}, machine {made.machine}"]
    for row in made.rows:
        lines.append(f"# {row.share:.1%} {_plain(row.object)}")
        what = "packed" if row.packed else f"line {row.line} step {row.step}"
        lines.append(f"site {row.module}+{row.offset:#x} {what}")
    return "\n".join(lines) + "\n"


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
