# SPDX-License-Identifier: Apache-2.0
"""The `stallscope` command. Verbs are found by folder and imported when they are called."""

from __future__ import annotations

import importlib
import os
import sys
from typing import NoReturn

import click

from stallscope import __version__
from stallscope.errors import StallscopeError

OWN_FAILURE = 125

# The questions that people come with, and the verbs that answer them, in the order of the help.
QUESTIONS: dict[str, dict[str, str]] = {
    "See it all at once": {
        "report": "one page with the verdict and all pictures, that opens from disk",
        "serve": "the same for a folder of recordings, live while one is made, with what-if",
        "explore": "walk from objects to functions to lines and back, in the terminal",
    },
    "Record a program": {
        "record": "run a program and record what it does to memory",
        "import": "make a recording of a file of perf, Valgrind, ChampSim or DynamoRIO, or a CSV",
        "info": "what was run, how it ended, how much it did",
        "machines": "the machines that can be simulated, or one of them",
    },
    "Watch a running process": {
        "run": "start a program so that heap blocks have names when somebody looks at it later",
        "top": "what it waits for, on a screen that refreshes",
    },
    "Watch and act": {
        "watch": "every access to a variable, field, heap site or address, and one past blocks",
        "loops": "trip counts, strides, branches and stalls of loops, and what would speed them up",
        "monitor": "programs for the small core that watches a machine: run, asm, list, step",
    },
    "Which data misses": {
        "objects": "the variables and heap blocks that miss the caches",
        "functions": "the functions that miss",
        "lines": "the lines that miss",
        "misses": "how often each level misses, and why",
        "evictions": "who throws whom out of the caches",
        "reuse": "how long data goes untouched, and which threads touch the same",
        "regions": "the regions that the program marks, and what each costs",
        "replay": "run a kept trace through another machine",
        "query": "ask the tables in SQL",
    },
    "Many machines, many hosts": {
        "sweep": "kept traces on many machines: which cache design misses how often",
        "fleet": "recordings of many hosts: ingest, top, objects, diff of two builds, builds",
        "agent": "sample the programs of this host in turn, within a budget",
    },
    "How much memory it needs": {
        "pages": "misses at every size of memory; also: epochs, replacement, allocate, prefetch, "
        "overhead",
    },
    "What the processor waits for": {
        "stalls": "cycles per instruction by what the processor waited for, over time",
        "counters": "many events on few counters, multiplexed, beside the full counts",
        "events": "what can be counted, and on which counters",
    },
    "Which threads share data": {
        "sharing": "threads by what they share, lines that they pass around, falsely or not",
        "place": "which threads to put on one chip, and what that would save",
    },
    "Change what it costs": {
        "advise": "what to change, by the cycles that each change would save",
        "loads": "the few loads that cause most misses, and how their addresses come about",
        "slices": "just the code that computes the addresses of those loads",
        "prefetch": "run ahead of the misses: predict, run, advise",
        "layout": "where heap blocks should lie so that they evict each other less",
    },
    "Take it elsewhere": {
        "export": "for Perfetto, pprof, speedscope, KCachegrind, Firefox, Parquet, Prometheus",
    },
    "Keep it good": {
        "diff": "what got better and worse from one recording to another",
        "check": "whether a run keeps to its budgets and is no worse than its baseline",
    },
    "See that all is well": {
        "doctor": "what works on this machine, why not, and what to do about it",
        "verify": "check a recording against its own invariants",
        "demo": "record a bundled program and show what was found",
        "completions": "for bash, zsh or fish; or the man page",
    },
}


class Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [verb for verbs in QUESTIONS.values() for verb in verbs]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"stallscope.cli.{name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None:
            import difflib

            near = difflib.get_close_matches(args[0], self.list_commands(ctx))
            raise StallscopeError(
                f"there is no verb {args[0]!r}",
                now=f"stallscope {near[0]}" if near else "stallscope --help",
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for question, verbs in QUESTIONS.items():
            with formatter.section(question):
                formatter.write_dl(list(verbs.items()))


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="stallscope")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Shows where programs lose time in the memory system."""


def _explain(error: StallscopeError) -> None:
    bold, dim, plain = ("\x1b[1;31m", "\x1b[2m", "\x1b[0m") if _colour() else ("", "", "")
    print(f"{bold}error:{plain} {_printable(error.what)}", file=sys.stderr)
    if error.why:
        print(f"  {_printable(error.why)}", file=sys.stderr)
    if error.now:
        print(f"  {dim}try:{plain} {_printable(error.now)}", file=sys.stderr)


def _colour() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ


def _printable(text: str) -> str:
    """Names of files and symbols may hold anything, also what steers a terminal."""
    return "".join(c if c.isprintable() or c == " " else ascii(c)[1:-1] for c in text)


def main(arguments: list[str] | None = None) -> NoReturn:
    given = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in given[: given.index("--")] if "--" in given else "--debug" in given[:1]
    try:
        status = cli.main(given, prog_name="stallscope", standalone_mode=False)
        sys.stdout.flush()
    except StallscopeError as error:
        if debug:
            raise
        _explain(error)
        sys.exit(error.status)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        print("stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has had enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if debug:
            raise
        if isinstance(error, OSError) and error.filename is None:  # no file of ours: the output
            sys.stdout = None  # or Python tries once more
            _explain(StallscopeError("the output could not be written", error.strerror or ""))
            sys.exit(OWN_FAILURE)
        _explain(
            StallscopeError(
                f"stallscope itself failed: {type(error).__name__}: {error}",
                now="stallscope --debug …, and report what it prints",
            )
        )
        sys.exit(OWN_FAILURE)
    _leave(status if isinstance(status, int) else 0)


def _leave(status: int) -> NoReturn:
    """Ends at once: taking Python and Arrow apart piece by piece takes longer than a short verb."""
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
