# SPDX-License-Identifier: Apache-2.0
"""python -m benchmarks.large_report [--functions N] [--blocks N] [--keep FOLDER]

The report of a recording with a million heap blocks and ten thousand functions: how long it takes,
how large the page is, and how long its reader waits: for the first screen, for each tab from the
click until it is painted, and for its largest table after a word was typed into its filter.
Prints all that docs/report.md says of it, as it stands there. Ends with 1 at 60 s or 15 MB, or when
a reader waits for 1 s."""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

STALLSCOPE = Path(sys.executable).with_name("stallscope")
MOST_SECONDS, MOST_BYTES = 60, 15_000_000
MOST_WAIT = 1000  # milliseconds
CHROMIUM = "/usr/bin/chromium"
# From the click until its panel is there, its pictures have pixels, and a frame has been painted.
CLICKED = """(id) => new Promise((done) => {
  const begin = performance.now();
  const panel = document.getElementById(id.replace("tab-", "panel-"));
  const drawn = () => !panel.hidden && panel.firstElementChild
    && [...panel.querySelectorAll(".chart, .plot")].every((box) => box.querySelector("canvas"));
  const look = () => requestAnimationFrame(() => {
    if (!drawn()) return look();
    const channel = new MessageChannel(); // its message comes after the frame
    channel.port1.onmessage = () => done(performance.now() - begin);
    return channel.port2.postMessage(0);
  });
  document.getElementById(id).click();
  look();
})"""
# From a word in the filter until the frame is painted in which fewer rows are said to be there.
FILTERED = """([id, word]) => new Promise((done) => {
  const box = document.querySelector(`#${id.replace("tab-", "panel-")} input[type=search]`);
  const begin = performance.now();
  box.value = word;
  box.dispatchEvent(new Event("input", { bubbles: true }));
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => done(performance.now() - begin);
    channel.port2.postMessage(0);
  });
})"""
FILTERS = {"Objects": "take_77", "Code": "take_77"}  # words for the filters of tabs
WIDTH = 118  # of the page that this goes to
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


def waits(page: Path) -> dict[str, float]:
    """Milliseconds that a reader waits."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        opened = browser.new_page()
        opened.goto(page.as_uri())
        opened.locator(".verdict").wait_for()
        first = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        found = {"first screen": opened.evaluate(first)}
        for tab in opened.get_by_role("tab").all():
            name, number = tab.inner_text(), tab.get_attribute("id")
            found[name] = opened.evaluate(CLICKED, number)
            if name in FILTERS:
                found[f"{name} filtered"] = opened.evaluate(FILTERED, [number, FILTERS[name]])
        browser.close()
    return found


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
        waited = waits(page.absolute())
        said = "ms until painted: " + ", ".join(f"{name} {ms:.0f}" for name, ms in waited.items())
        print(textwrap.fill(said, WIDTH))
        quick = took["report"] < MOST_SECONDS and max(waited.values()) < MOST_WAIT
        return 0 if quick and size < MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
