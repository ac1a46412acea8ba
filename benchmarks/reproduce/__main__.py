# SPDX-License-Identifier: Apache-2.0
"""python -m benchmarks.reproduce [PAGE...] [--runs N] [--output FOLDER] [--keep]

Writes docs/reproduction/: what the tables and figures of the original study become here. Times are
of native runs, so they mean something on a quiet machine only; all other numbers are the same
wherever the programs are compiled the same."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time
from pathlib import Path
from types import ModuleType

from benchmarks.reproduce import index
from benchmarks.reproduce.lab import Lab, say
from benchmarks.reproduce.page import Page
from stallscope.errors import StallscopeError


def pages() -> dict[str, ModuleType]:
    """The files of this folder that make a page, in the order of the index."""
    package = importlib.import_module("benchmarks.reproduce")
    found = {}
    for module in pkgutil.iter_modules(package.__path__):
        if module.name == "__main__":
            continue
        loaded = importlib.import_module(f"benchmarks.reproduce.{module.name}")
        if hasattr(loaded, "make") and hasattr(loaded, "TITLE"):
            found[loaded.NAME] = loaded
    return {name: found[name] for name in index.ORDER}


def parse(known: dict[str, ModuleType]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reproduce", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PAGE", help=f"of: {', '.join(known)}")
    parser.add_argument("--runs", type=int, default=9, help="native runs of each form")
    parser.add_argument("--output", type=Path, default=Path("docs/reproduction"))
    parser.add_argument("--keep", action="store_true", help="recordings stay in build/reproduce")
    options = parser.parse_args()
    if unknown := set(options.names) - set(known):
        parser.error(f"there is no page {', '.join(sorted(unknown))}; of: {', '.join(known)}")
    if options.runs < 1:
        parser.error("--runs must be 1 or more")
    return options


def main() -> int:
    known = pages()
    options = parse(known)
    lab, began = Lab(runs=options.runs, keep=options.keep), time.monotonic()
    options.output.mkdir(parents=True, exist_ok=True)
    try:
        for name, module in known.items():
            if options.names and name not in options.names:
                continue
            say(f"page {name}: {module.TITLE}")
            page = Page(options.output, name, module.TITLE)
            module.make(lab, page)
            page.write()
        index.write(options.output, known)
    except StallscopeError as error:
        say(f"error: {error}")
        return 1
    finally:
        lab.close()
    say(f"done in {time.monotonic() - began:.0f} s: {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
