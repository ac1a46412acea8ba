# SPDX-License-Identifier: Apache-2.0
"""make pictures: runs the examples of the docs again, and puts their output and pictures in place.

An example is a comment that names a workload with its arguments and a command, and the block of
text below it:

    <!-- example: quake 16 10 slow: stallscope objects --limit 4 --plot pictures/quake.png -->

Pages are named on the command line; all of them when none is.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from stallscope import workloads

DOCS = Path(__file__).resolve().parent
STALLSCOPE = Path(sys.executable).with_name("stallscope")
EXAMPLE = re.compile(
    r"(?P<head><!-- example: (?P<program>[^:]+): stallscope (?P<words>.+?) -->\n)```\n.*?```\n",
    re.DOTALL,
)
COLUMNS = "112"


def recorded(command: str, folder: Path) -> Path:
    """A recording of this workload, made once. `record` takes what stands before its name."""
    words = command.split()
    at = next(i for i, word in enumerate(words) if word in workloads.names())
    options, name, arguments = words[:at], words[at], words[at + 1 :]
    recording = folder / f"{name}-{arguments[-1]}.stallscope"
    if not recording.exists():
        program = workloads.build(name, folder)
        words = ["record", "-q", "--trace", *options, "-o", recording, "--", program, *arguments]
        subprocess.run([STALLSCOPE, *words], check=True, stdout=subprocess.DEVNULL)
    return recording


def shown(example: re.Match[str], folder: Path) -> str:
    words = shlex.split(example["words"])
    verbs = list(itertools.takewhile(lambda word: not word.startswith("-"), words))
    print(f"stallscope {example['words']}   of {example['program']}", flush=True)
    ran = subprocess.run(
        [STALLSCOPE, *verbs, recorded(example["program"], folder), *words[len(verbs) :]],
        check=True,
        capture_output=True,
        text=True,
        cwd=DOCS,
        env={**os.environ, "COLUMNS": COLUMNS},
    )
    lines = "".join(f"{line.rstrip()}\n" for line in ran.stdout.splitlines())
    return f"{example['head']}```\n$ stallscope {example['words']}\n{lines}```\n"


def main() -> None:
    pages = [Path(name).resolve() for name in sys.argv[1:]] or sorted(DOCS.rglob("*.md"))
    with tempfile.TemporaryDirectory(prefix="stallscope-docs-") as folder:
        for page in pages:
            text = page.read_text()
            fresh = EXAMPLE.sub(lambda found: shown(found, Path(folder)), text)
            if fresh != text:
                page.write_text(fresh)


if __name__ == "__main__":
    main()
