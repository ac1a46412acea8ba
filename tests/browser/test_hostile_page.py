# SPDX-License-Identifier: Apache-2.0
"""Names that would be markup stay text, in the page that opens from disk and in the server's."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import PATIENCE, STALLSCOPE, Made, Recorder, run

SCRIPT = "</script><script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(1)>"
TURNED = "abc\u202edef"
PROGRAM = f"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#line 7 "/nowhere/{SCRIPT}.c"
static long shared[1 << 16];
__attribute__((noinline)) void renamed(long* at) {{
  for (int i = 0; i < 1 << 16; i += 8) at[i]++;
}}
void* work(void* name) {{
  prctl(PR_SET_NAME, name);
  renamed(shared);
  return NULL;
}}
int main(int argc, char** argv) {{
  (void)argc;
  pthread_t thread;
  pthread_create(&thread, NULL, work, argv[1]);
  pthread_join(thread, NULL);
  renamed(malloc(sizeof shared));
  return 0;
}}
"""


@pytest.fixture(scope="module")
def made(shared_record: Recorder, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "hostile.c").write_text(PROGRAM)
    one, two = folder / "one.o", folder / "two.o"
    subprocess.run(["cc", "-O1", "-g1", "-c", folder / "hostile.c", "-o", one], check=True)
    subprocess.run(["objcopy", f"--redefine-sym=renamed={IMAGE}", one, two], check=True)
    program = folder / "hostile"
    subprocess.run(["cc", two, "-o", program, "-pthread"], check=True)
    made = shared_record(program, "<b>thread</b>", SCRIPT, TURNED, options=["--trace"])
    assert made.status == 0
    return made


def check(seen: Any) -> None:
    """Nothing ran, and no element was made of a name."""
    assert not seen.troubles
    assert seen.page.locator("img").count() == 0
    assert seen.page.locator("#root script").count() == 0
    assert seen.page.locator("script").count() == 2


def walk(seen: Any) -> str:
    text = seen.page.locator("header").inner_text()
    for tab in seen.page.get_by_role("tab").all():
        tab.click()
        panel = seen.page.locator("[role=tabpanel]:not([hidden])")
        panel.locator("h2").first.wait_for()
        text += panel.inner_text()
    return str(text)


def test_the_page_from_disk(made: Made, visit: Callable[..., Any], tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    ran = run(STALLSCOPE, "report", made.path, "-o", page, "--no-advice")
    assert ran.status == 0, ran.stderr
    assert "\u202e" not in ran.stdout
    seen = visit(page)
    text = walk(seen)
    check(seen)
    assert SCRIPT in text
    assert "<b>thread</b>" in text
    assert "script>.c" in text
    assert "\\u202e" in text
    assert "\u202e" not in text
    assert page.read_text().lower().count("<script") == 2


@pytest.fixture
def address(made: Made, tmp_path: Path) -> Iterator[str]:
    shutil.copytree(made.path, tmp_path / f"{IMAGE}.stallscope")
    words = [str(STALLSCOPE), "serve", str(tmp_path)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_the_page_of_the_server(address: str, visit: Callable[..., Any]) -> None:
    seen = visit(address)
    seen.page.get_by_role("link", name=IMAGE).click()
    seen.page.locator(".verdict").wait_for()
    assert SCRIPT in walk(seen)
    seen.page.get_by_role("tab", name="What if").click()
    seen.page.locator("fieldset").nth(1).locator("input").first.fill("<b>64K</b>")
    seen.page.get_by_role("button", name="Replay").click()
    said = seen.page.locator("[role=alert]")
    said.wait_for()
    assert "<b>64K</b>" in said.inner_text()
    seen.troubles = [text for text in seen.troubles if "400" not in text]
    seen.page.locator("fieldset").nth(1).locator("input").first.fill("64K")
    seen.page.get_by_role("button", name="Replay").click()
    seen.page.locator(".answer").wait_for()
    check(seen)
    assert all(request.startswith(address) for request in seen.requests)
