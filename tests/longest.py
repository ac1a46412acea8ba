# SPDX-License-Identifier: Apache-2.0
"""Size is a smell: prints the ten longest files and functions, and fails past the limits."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

FILE_LIMIT = 800
FUNCTION_LIMIT = 80
ENDINGS = (".py", ".c", ".cpp", ".h", ".sh")


def sources() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True, text=True
    )
    return [Path(name) for name in listed.stdout.splitlines() if name.endswith(ENDINGS)]


def functions(path: Path) -> list[tuple[int, str]]:
    """Python's exactly; C and C++ as clang-format lays them out: from `{` to `}` in column 0."""
    text = path.read_text()
    if path.suffix == ".py":
        return [
            (
                (node.end_lineno or node.lineno) - node.lineno + 1,
                f"{path}:{node.lineno} {node.name}",
            )
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
    found, start = [], 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.endswith("{") and not line.startswith(
            (" ", "}", "namespace", "struct", "class", "enum")
        ):
            start = number
        elif line.startswith("}") and start:
            found.append((number - start + 1, f"{path}:{start}"))
            start = 0
    return found


def main() -> int:
    files = [path for path in sources() if path.is_file()]
    lengths = sorted(((len(p.read_text().splitlines()), str(p)) for p in files), reverse=True)
    found = sorted((f for path in files for f in functions(path)), reverse=True)
    print("longest files:", ", ".join(f"{name} {length}" for length, name in lengths[:10]))
    print("longest functions:", ", ".join(f"{name} {length}" for length, name in found[:10]))
    long_files = [name for length, name in lengths if length > FILE_LIMIT]
    long_functions = [name for length, name in found if length > FUNCTION_LIMIT]
    for name in long_files + long_functions:
        print(f"too long: {name}", file=sys.stderr)
    return 1 if long_files or long_functions else 0


if __name__ == "__main__":
    sys.exit(main())
