# SPDX-License-Identifier: Apache-2.0
"""python -m benchmarks.large_report [--functions N] [--blocks N] [--keep FOLDER]

The report of a recording with a million heap blocks and ten thousand functions: how long it takes,
and how large the page is. Ends with 1 when that is 60 s or 15 MB or more."""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STALLSCOPE = Path(sys.executable).with_name("stallscope")
MOST_SECONDS, MOST_BYTES = 60, 15_000_000
FUNCTION = """
NOINLINE static long take_{n}(long sum) {{
  for (int i = 0; i < BLOCKS; i++) {{
    long* made = malloc({size});
    made[0] = i;
    made[1] = (long)kept[{slot}];
    kept[{slot}] = made;
  }}
  for (long* at = kept[{slot}]; at != NULL; at = (long*)at[1]) sum += at[0];
  return sum;
}}
"""


def source(functions: int, blocks: int) -> str:
    """Each function makes blocks of its own and walks over them."""
    parts = ["#include <stdio.h>", "#include <stdlib.h>", f"#define BLOCKS {blocks}"]
    parts += ["#define NOINLINE __attribute__((noinline))", f"static long* kept[{functions}];"]
    for n in range(functions):
        parts.append(FUNCTION.format(n=n, slot=n, size=16 + 16 * (n % 5)))
    parts.append("int main(void) {\n  long sum = 0;")
    parts += [f"  sum = take_{n}(sum);" for n in range(functions)]
    parts.append('  printf("%ld\\n", sum);\n  return 0;\n}')
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", type=int, default=10_000)
    parser.add_argument("--blocks", type=int, default=100, help="of each function")
    parser.add_argument("--keep", type=Path, help="put recording and report into this folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        (folder / "large.c").write_text(source(given.functions, given.blocks))
        subprocess.run(["cc", "-g", "-O1", folder / "large.c", "-o", folder / "large"], check=True)
        recording, page = folder / "large.stallscope", folder / "large.html"
        took: dict[str, float] = {}
        worked: dict[str, float] = {}  # of the processor, which a busy machine changes less
        for name, words in {
            "record": ["record", "-q", "-f", "--trace", "-o", recording, "--", folder / "large"],
            "report": ["report", recording, "-f", "-o", page],
        }.items():
            begin, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([str(STALLSCOPE), *map(str, words)], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            took[name] = time.perf_counter() - begin
            worked[name] = after.ru_utime - used.ru_utime + after.ru_stime - used.ru_stime
        size = page.stat().st_size
        blocks = given.functions * given.blocks
        print(f"{blocks:,} heap blocks, {given.functions:,} functions")
        for name in took:
            print(f"{name}: {took[name]:.1f} s, of the processor {worked[name]:.1f} s")
        print(f"the page has {size / 1e6:.1f} MB")
        return 0 if took["report"] < MOST_SECONDS and size < MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
