# SPDX-License-Identifier: Apache-2.0
"""The programs of the pages about counters and stalls: three tools, a chess engine and four numeric
workloads, in place of SPEC's; each recorded once, with its trace."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import stallscope
from benchmarks.reproduce.lab import STALLSCOPE, Lab, timed
from stallscope import _engine, workloads
from stallscope.errors import StallscopeError
from stallscope.pipelines import CoreView

LONG, SHORT = 1_300_000_000, 40_000_000  # instructions
PERL = """my %h; my $x = 12345; my @w;
for my $i (0..1500000) { $x = ($x * 1103515245 + 12345) % 2147483648;
  my $k = "w" . ($x % 5000); $h{$k} .= chr(97 + $x % 26); push @w, $k if $i % 50 == 0; }
my $n = 0;
for my $k (sort keys %h) { my $s = $h{$k}; $n++ while $s =~ /a[b-m]+z?/g;
  $s =~ tr/a-m/n-z/; $h{$k} = substr($s, 0, 10); }
print "$n ", scalar(@w), "\\n";
"""
CHESS = "go\nquit\n"
NUMERIC = {
    "multigrid": ("64", "6", "slow"),
    "shallow_water": ("256", "80", "slow"),
    "quake": ("24", "120", "slow"),
    "fft": ("512", "12"),
}


def _gzip(folder: Path) -> list[str]:
    """Five megabytes of machine code: Debian's Python, or where there is none our own engine."""
    system = Path("/usr/bin/python3").resolve()
    data = (system if system.exists() else Path(_engine.__file__)).read_bytes()
    (folder / "gzip.input").write_bytes((data * (1 + 5_000_000 // len(data)))[:5_000_000])
    return ["gzip", "-c", str(folder / "gzip.input")]


def _compiler(folder: Path) -> list[str]:
    proper = subprocess.run(
        ["gcc", "-print-prog-name=cc1"], check=True, capture_output=True, text=True
    ).stdout.strip()
    source = Path("workloads/quake.c")
    subprocess.run(["gcc", "-E", "-o", str(folder / "quake.i"), str(source)], check=True)
    options = ["-O3", "-quiet", "-funroll-all-loops"]
    return [proper, *options, str(folder / "quake.i"), "-o", "/dev/null"]


def _perl(folder: Path) -> list[str]:
    (folder / "words.pl").write_text(PERL)
    return ["perl", str(folder / "words.pl")]


def _chess(folder: Path) -> list[str]:
    """A copy: Debian's has privileges that a recorded program cannot be given."""
    found = shutil.which("phalanx", path="/usr/games:/usr/bin")
    if found is None:
        raise StallscopeError("there is no chess engine", now="apt-get install phalanx")
    shutil.copy(found, folder / "chess")
    (folder / "chess").chmod(0o755)
    return [str(folder / "chess"), "-b-", "-l-", "-o-", "-f", "20"]


def _numeric(name: str) -> Callable[[Path], list[str]]:
    return lambda folder: [str(workloads.build(name, folder).resolve()), *NUMERIC[name]]


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "gzip": _gzip,
    "cc1": _compiler,
    "perl": _perl,
    "chess": _chess,
    **{name: _numeric(name) for name in NUMERIC},
}


def recording(lab: Lab, name: str, instructions: int = LONG) -> Path:
    """A trace of so many instructions; one that is there is used when the lab keeps them."""
    lab.folder.mkdir(parents=True, exist_ok=True)
    folder = (lab.folder / "programs").resolve()
    folder.mkdir(exist_ok=True)
    path = lab.folder / f"{name}-{instructions // 1_000_000}M.stallscope"
    if lab.keep and (path / "meta.json").exists():
        return path
    command = COMMANDS[name](folder)
    words = [STALLSCOPE, "record", "-q", "-f", "--trace", "--machine", "none", "-o", str(path)]
    words += ["--max-instructions", str(instructions), "--", *command]
    with timed(f"records {path.stem}"):
        subprocess.run(words, check=True, input=CHESS.encode(), stdout=subprocess.DEVNULL)
    lab._made[name, str(instructions)] = path
    return path


def view(lab: Lab, name: str, instructions: int = LONG, **options: object) -> CoreView:
    return stallscope.core_view(recording(lab, name, instructions), **options)
