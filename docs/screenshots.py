# SPDX-License-Identifier: Apache-2.0
"""python docs/screenshots.py [fleet|serve]: pictures of docs/report.md, serve.md, explore.md and
fleet.md (or of one of them alone), from reports of workloads that are recorded for them. Needs
chromium."""

from __future__ import annotations

import asyncio
import contextlib
import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from stallscope import workloads
from stallscope.exploring import explore
from stallscope.views.terminal.explore import Explorer

PICTURES = Path(__file__).resolve().parent / "pictures"
STALLSCOPE = Path(sys.executable).with_name("stallscope")
WIDE, PHONE = {"width": 1100, "height": 720}, {"width": 390, "height": 780}
RECORDED = {
    "list": [],
    "multigrid": ["16", "2", "slow"],
    "counters": ["4", "20000", "packed"],
}
# Of a report: the picture's name, the workload and the tab.
SHOTS = [
    ("verdict", "list", "overview"),
    ("time", "multigrid", "time"),
    ("objects", "list", "objects"),
    ("code", "list", "functions"),
    ("source", "list", "source"),
    ("evictions", "multigrid", "evictions"),
    ("sharing", "counters", "sharing"),
    ("memory", "list", "pages"),
    ("loads", "list", "loads"),
    ("about", "list", "about"),
]


def record(folder: Path) -> None:
    for name, given in RECORDED.items():
        arguments = given or workloads.truth(name).command_arguments("default")
        words = ["record", "-q", "--trace", "-o", f"{name}.stallscope", "--"]
        program = workloads.build(name, folder)
        run([*words, f"./{program.name}", *arguments], folder)
        advice = "--advice" if name == "list" else "--no-advice"
        run(["report", f"{name}.stallscope", "-o", f"{name}.html", advice], folder)


def run(words: list[str], folder: Path) -> None:
    subprocess.run([str(STALLSCOPE), *words], check=True, cwd=folder, stdout=subprocess.DEVNULL)


def keep(data: bytes, name: str) -> None:
    """With few colours, so that the repository stays small."""
    picture = Image.open(io.BytesIO(data)).convert("RGB").quantize(96, dither=Image.Dither.NONE)
    picture.save(PICTURES / f"{name}.png", optimize=True)


@contextlib.contextmanager
def page(browser: Any, address: str, size: dict[str, int], scheme: str = "light") -> Iterator[Any]:
    context = browser.new_context(viewport=size, color_scheme=scheme)
    opened = context.new_page()
    opened.goto(address)
    opened.locator("main h2, main table").first.wait_for()
    opened.wait_for_timeout(700)  # until charts are drawn
    yield opened
    context.close()


def reports(browser: Any, folder: Path) -> None:
    for name, workload, tab in SHOTS:
        with page(browser, f"{(folder / workload).as_uri()}.html#{tab}", WIDE) as opened:
            keep(opened.screenshot(), f"report-{name}")
    with page(browser, f"{(folder / 'list').as_uri()}.html#time", WIDE, "dark") as opened:
        keep(opened.screenshot(), "report-dark")
    with page(browser, f"{(folder / 'list').as_uri()}.html", PHONE) as opened:
        keep(opened.screenshot(), "report-phone")


def server(browser: Any, folder: Path) -> None:
    words = [str(STALLSCOPE), "serve", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            with page(browser, address, WIDE) as opened:
                keep(opened.screenshot(), "serve-list")
            with page(browser, f"{address}?recording=list.stallscope", WIDE) as opened:
                opened.get_by_role("tab", name="What if").click()
                opened.locator("fieldset").nth(2).locator("input").first.fill("4M")
                opened.get_by_role("button", name="Replay").click()
                opened.locator(".answer").wait_for()
                keep(opened.screenshot(), "serve-what-if")
            with (
                running(folder) as name,
                page(browser, f"{address}?recording={name}", WIDE) as opened,
            ):
                opened.get_by_text("Objects so far").wait_for()
                opened.wait_for_timeout(10_000)  # until some more have come
                keep(opened.screenshot(), "serve-live")
        finally:
            process.terminate()


@contextlib.contextmanager
def running(folder: Path) -> Iterator[str]:
    """A recording at native speed that is being made."""
    name = "multigrid-live.stallscope"
    workloads.build("multigrid", folder)
    words = ["record", "-q", "--source", "clock", "-o", name, "--", "./multigrid"]
    started = [str(STALLSCOPE), *words, "32", "100000", "slow"]
    with subprocess.Popen(started, cwd=folder, stdout=subprocess.DEVNULL) as process:
        try:
            while not (folder / name).is_dir():
                time.sleep(0.1)
            yield name
        finally:
            process.terminate()


def fleets(browser: Any, folder: Path) -> None:
    """Of a small simulated one, in whose second build the tree of bst costs more on some hosts."""
    from benchmarks.fleet_sim import Base, Plant, Simulated

    bases = []
    for name, count in (("list", "60000"), ("bst", "30000")):
        program, made = workloads.build(name, folder), folder / f"{name}-clock.stallscope"
        words = ["record", "-q", "--source", "clock", "--rate", "997", "-o", str(made), "--"]
        run([*words, str(program), count], folder)
        bases.append(Base.read(made))
    tree = next(name for name in bases[1].names.values() if name.startswith("make_node"))
    plant = Plant("bst", tree, frozenset(range(6)))
    Simulated(bases, hosts=20, days=6, each=4, plant=plant).write(folder / "hosts")
    run(["fleet", "ingest", "hosts", "--fleet", "web"], folder)
    run(["report", "web", "-o", "web.html"], folder)
    with page(browser, f"{(folder / 'web').as_uri()}.html", WIDE) as opened:
        keep(opened.screenshot(full_page=True), "fleet-verdict")
    with page(browser, f"{(folder / 'web').as_uri()}.html#changes", WIDE) as opened:
        keep(opened.screenshot(), "fleet-changes")


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "runs"
        folder.mkdir()
        if sys.argv[1:] == ["fleet"]:
            with browsing() as browser:
                fleets(browser, folder)
            return
        record(folder)
        if sys.argv[1:] == ["serve"]:
            with browsing() as browser:
                server(browser, folder)
            return
        # Before the browser: Playwright has a loop of its own, in which Textual's cannot run.
        (folder / "explore.svg").write_text(asyncio.run(drawn(folder)))
        with browsing() as browser:
            reports(browser, folder)
            server(browser, folder)
            fleets(browser, folder)
            opened = browser.new_page(viewport={"width": 1100, "height": 560})
            opened.goto((folder / "explore.svg").as_uri())
            keep(opened.screenshot(), "explore-lines")


@contextlib.contextmanager
def browsing() -> Iterator[Any]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


async def drawn(folder: Path) -> str:
    app = Explorer(explore(folder / "list.stallscope"))
    async with app.run_test(size=(110, 24)) as pilot:
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        return str(app.export_screenshot(title="stallscope explore"))


if __name__ == "__main__":
    main()
