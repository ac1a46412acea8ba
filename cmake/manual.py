# SPDX-License-Identifier: Apache-2.0
"""manual.py SOURCES ENGINE FOLDER: the man page and the completions, when the package is built.

Verbs ask the engine for the words of their options, so it has to be there: ENGINE is its folder."""

import sys
from pathlib import Path

sources, engine, folder = sys.argv[1:]
# An editable install of an earlier build would be found first.
sys.meta_path[:] = [one for one in sys.meta_path if "ScikitBuild" not in type(one).__name__]
sys.path.insert(0, sources)
sys.dont_write_bytecode = True

import stallscope  # noqa: E402

stallscope.__path__.append(engine)

from stallscope.cli import manual  # noqa: E402

manual.write_all(Path(folder))
