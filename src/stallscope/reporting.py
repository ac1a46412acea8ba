# SPDX-License-Identifier: Apache-2.0
"""Everything that is known of a recording in one plain document, from which pages are made.

A part that a recording has no data for says why, and how to get it, instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from stallscope import __version__, machines, processes
from stallscope.analyses.crossings import crossings
from stallscope.analyses.info import info
from stallscope.analyses.live import LiveView
from stallscope.analyses.objects import MissView, functions, lines, objects
from stallscope.analyses.sharing import sharing_matrix
from stallscope.analyses.verdict import Known, verdict
from stallscope.annotating import read_source
from stallscope.errors import StallscopeError
from stallscope.recording import Recording, is_sampled, open_recording
from stallscope.results import NoTrace

SCHEMA = "stallscope.report/1"
ROWS = 3000  # of a table
BUDGET = 15_000_000  # bytes of a page
PAGE = 1_300_000  # of them, for what draws it
CROSSED = 300  # objects whose lines are told, and lines of each
LINES_EACH = 15
ADVISED = 100_000_000  # instructions of a trace, up to which changes are tried unasked
ADVISED_BLOCKS = 300_000  # and heap blocks
FILES = 24  # whose text is shown
POINTS = 600  # of a curve
MATRIX = 24  # objects of a heat map
NOISE = 0.0005  # share of the evictions below which an object is one of the others there
LOADS = 200
SHARED = 200  # lines that threads pass around
THREADS = 48  # of the sharing matrix
LONGEST = 400  # characters of a name

Part = dict[str, Any]
Say = Callable[[str], None]


def report(
    recording: Recording | str | Path | None = None,
    *,
    machine: str | None = None,
    process: str | int | None = None,
    limit: int = ROWS,
    sources: Sequence[str | Path] = (),
    source: bool = True,
    advice: bool | None = None,
    budget: int = BUDGET,
    say: Say = lambda part: None,
) -> dict[str, Any]:
    """A recording (the newest here when not told) on a machine (as recorded): the verdict, and what
    each analysis found, at most `limit` rows of each table. Source files are looked for where the
    recording says, then below the folders `sources`; without `source` they are not read. Advice
    replays every change that it tries, so large traces get none unless it is asked for."""
    opened = recording if isinstance(recording, Recording) else open_recording(recording)
    processes.choose(opened, process)  # what is asked for wrongly is an error, not a missing part
    if machine is not None:
        machines.load(machine)
    asked = _Asked(opened, machine, process, limit or 10**9, advice)
    parts: dict[str, Part] = {}
    for name, make in PARTS.items():
        say(name)
        parts[name] = _made(make, asked)
    say("source")
    folders = [Path(opened.meta.folder), *map(Path, sources)] if source else None
    parts["source"] = _source(asked, parts, folders)
    document = {
        "schema": SCHEMA,
        "stallscope": __version__,
        "recording": opened.path.name,
        "live": asked.live,
        "verdict": msgspec.to_builtins(verdict(asked.known())),
        "info": msgspec.to_builtins(info(opened), enc_hook=str),
        "parts": parts,
        "left_out": [],
    }
    return _fitted(_shortened(document), budget - PAGE)


class _Asked:
    """A recording and what is asked of it; what several parts need is found once."""

    def __init__(
        self,
        recording: Recording,
        machine: str | None,
        process: str | int | None,
        limit: int,
        advice: bool | None = None,
    ) -> None:
        self.recording = recording
        self.words: dict[str, Any] = {"machine": machine, "process": process}
        self.limit = limit
        self._advice = advice
        self.live = is_sampled(recording.meta)

    @functools.cached_property
    def view(self) -> MissView | LiveView:
        from stallscope.viewing import view

        if self.live:
            return view(self.recording, process=self.words["process"])
        try:  # one replay that counts more serves all
            return view(self.recording, evictions=True, **self.words)
        except NoTrace:
            return view(self.recording, **self.words)

    @functools.cached_property
    def objects(self) -> Any:
        return objects(self.view)

    @functools.cached_property
    def crossings(self) -> Any:
        wanted = {row.object for row in self.objects.rows[:CROSSED]}
        return crossings(self.view, wanted, LINES_EACH)

    @functools.cached_property
    def lines(self) -> Any:
        return lines(self.view)

    @functools.cached_property
    def evictions(self) -> Any:
        from stallscope.analyses.evictions import evictions

        if isinstance(self.view, MissView) and not self.view.replay.result.probe.evictions:
            raise StallscopeError(
                "evictions were not counted",
                f"{self.recording.path.name} has no trace that could be replayed",
                "stallscope record --trace -- PROGRAM, or --probe evictions",
            )
        return evictions(self.view)  # type: ignore[arg-type]  # samples say so themselves

    @functools.cached_property
    def core(self) -> Any:
        from stallscope.pipelines import core_view

        return core_view(self.recording, objects=True, **self.words)

    @functools.cached_property
    def stalls(self) -> Any:
        from stallscope.analyses.stalls import stalls

        return stalls(self.core)

    @functools.cached_property
    def sharing(self) -> Any:
        from stallscope.clustering import sharing

        return sharing(self.recording, process=self.words["process"])

    @functools.cached_property
    def pages(self) -> Any:
        from stallscope.analyses.pages import pages
        from stallscope.viewing import page_view

        return pages(page_view(self.recording, **self.words))

    @functools.cached_property
    def advice(self) -> Any:
        from stallscope.advising import advise

        facts = self.recording.meta
        small = facts.instructions <= ADVISED and facts.allocations <= ADVISED_BLOCKS
        if not (small if self._advice is None else self._advice):
            raise StallscopeError(
                "no advice was asked for",
                "every change that is tried is a replay, and the trace is large",
                "stallscope report --advice, or stallscope advise",
            )
        return advise(self.recording, **self.words)

    def known(self) -> Known:
        """For the verdict: what could be found."""
        found: dict[str, Any] = {}
        for name in ("objects", "crossings", "evictions", "stalls", "sharing", "pages", "advice"):
            try:
                found[name] = getattr(self, name)
            except StallscopeError:
                continue
        return Known(**found)


def _made(make: Callable[[_Asked], Part], asked: _Asked) -> Part:
    try:
        return make(asked)
    except StallscopeError as error:
        return {"missing": {"what": error.what, "why": error.why, "now": error.now}}


def table(rows: Iterable[Any], columns: Sequence[str], limit: int, total: int = 0) -> Part:
    """Rows as lists, in the order of the columns: names are told once."""
    every = rows if isinstance(rows, list) else list(rows)
    kept = [
        [_plain(row[name] if isinstance(row, Mapping) else getattr(row, name)) for name in columns]
        for row in every[:limit]
    ]
    return {"columns": list(columns), "rows": kept, "total": max(total, len(every))}


def _plain(value: Any) -> Any:
    """Shares need no 17 digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    return msgspec.to_builtins(value, str_keys=True)


OBJECT = (
    "object", "kind", "type", "blocks", "bytes", "misses", "sampled", "share", "latency",
    "latency_share",
)  # fmt: skip
PLACE = ("function", "file", "line", "misses", "sampled", "share", "latency", "latency_share")
CROSSING = ("object", "function", "file", "line", "misses", "sampled", "latency", "share")
EVICTION = ("level", "evicted", "by", "count", "share", "share_all")
STALL = ("name", "function", "file", "line", "cycles", "share", "main")


def _objects(asked: _Asked) -> Part:
    found = asked.objects
    part = table(found.rows, OBJECT, asked.limit) | {
        "machine": found.machine,
        "level": found.level,
        "misses": found.misses,
        "samples": found.samples,
        "levels": msgspec.to_builtins(found.levels),
        "crossings": table(asked.crossings, CROSSING, CROSSED * LINES_EACH),
    }
    if asked.live:
        part |= {
            name: msgspec.to_builtins(getattr(found, name))
            for name in ("waiting", "addressed", "lost", "seconds", "states", "threads")
        }
    return part


def _functions(asked: _Asked) -> Part:
    return table(functions(asked.view).rows, PLACE, asked.limit)


def _lines(asked: _Asked) -> Part:
    return table(asked.lines.rows, PLACE, asked.limit)


def _evictions(asked: _Asked) -> Part:
    found = asked.evictions
    matrices = [
        {
            "level": matrix.level,
            "misses": matrix.misses,
            "evictions": matrix.evictions,
            "names": matrix.names,
            "counts": matrix.counts,
            "resident": _plain(list(matrix.resident)),
        }
        for matrix in found.matrices(MATRIX, NOISE)
    ]
    return table(found.rows, EVICTION, asked.limit) | {"matrices": matrices}


def _time(asked: _Asked) -> Part:
    from stallscope.analyses.stalls import stalls

    found = asked.stalls
    by = {name: stalls(asked.core, by=name).rows for name in ("function", "line", "object")}
    rows = found.over_time(POINTS)
    return {
        "machine": found.machine,
        "cycles": found.cycles,
        "instructions": found.instructions,
        "cpi": found.cpi,
        "completion_cpi": found.completion_cpi,
        "completion_cycles": found.completion_cycles,
        "stall_cycles": found.stall_cycles,
        "causes": msgspec.to_builtins(found.causes),
        "sources": msgspec.to_builtins(found.sources),
        "phases": msgspec.to_builtins(found.phases),
        "timeline": {
            "start": [row.start for row in rows],
            "cycles": [row.cycles for row in rows],
            "instructions": [row.instructions for row in rows],
            "completion": [row.completion for row in rows],
            "causes": {
                row.cause: [time.causes[row.cause] for time in rows] for row in found.causes
            },
        },
        **{f"by_{name}": table(by[name], STALL, asked.limit) for name in by},
    }


def _sharing(asked: _Asked) -> Part:
    found = msgspec.to_builtins(asked.sharing, str_keys=True)
    found["matrix"] = msgspec.to_builtins(sharing_matrix(asked.sharing, THREADS))
    found["lines"] = found["lines"][: min(asked.limit, SHARED)]
    return {name: value for name, value in found.items() if name != "recording"}


def _pages(asked: _Asked) -> Part:
    found = asked.pages
    kept = ("source", "page_size", "footprint_pages", "footprint_bytes", "references", "exact")
    return {
        **{name: getattr(found, name) for name in kept},
        "knee": msgspec.to_builtins(found.knee),
        "working_set": msgspec.to_builtins(found.working_set),
        "curve": [[row.pages, row.misses] for row in found.points(POINTS)],
        "objects": table(
            found.objects, ("object", "kind", "footprint_pages", "references", "share"), asked.limit
        ),
    }


def _loads(asked: _Asked) -> Part:
    from stallscope.analyses.loads import LIVE_THRESHOLD, Limits, loads

    limits = Limits(threshold=LIVE_THRESHOLD) if asked.live else Limits()
    found = loads(asked.view, limits)
    columns = ("pc", "function", "file", "line", "object", "misses", "samples", "share", "kind")
    return table(found.rows, (*columns, "delinquent", "reason"), min(asked.limit, LOADS)) | {
        "level": found.level,
        "covering": found.covering,
        "slices": _made(_slices, asked),
    }


def _slices(asked: _Asked) -> Part:
    from stallscope.ahead import slices

    if isinstance(asked.view, LiveView) or not asked.recording.meta.trace:
        raise StallscopeError(
            "there are no slices",
            "which stores feed which loads is known of a trace only",
            "stallscope record --trace -- PROGRAM",
        )
    return {"rows": msgspec.to_builtins(slices(asked.view, most=5).rows)}


def _advice(asked: _Asked) -> Part:
    columns = (
        *("rank", "kind", "object", "where", "evidence"),
        *("predicted_cycles_saved", "predicted_share", "how"),
    )
    found = asked.advice
    return table(found.rows, columns, asked.limit) | {"tried": found.tried}


PARTS: dict[str, Callable[[_Asked], Part]] = {
    "objects": _objects,
    "functions": _functions,
    "lines": _lines,
    "evictions": _evictions,
    "time": _time,
    "sharing": _sharing,
    "pages": _pages,
    "loads": _loads,
    "advice": _advice,
}


def _source(asked: _Asked, parts: dict[str, Part], folders: list[Path] | None) -> Part:
    """Files in the order of what their lines cost, with their text and what is known by line."""
    by_file: dict[str, dict[int, dict[str, Any]]] = {}
    cost: dict[str, float] = {}
    for name, measure in (("lines", "latency_share"), ("time", "share")):
        part = parts[name].get("by_line") if name == "time" else parts[name]
        for row in _rows(part or {}):
            if not row["file"] or row["line"] is None:
                continue
            numbers = by_file.setdefault(row["file"], {}).setdefault(row["line"], {})
            _add(numbers, row, name)
            cost[row["file"]] = cost.get(row["file"], 0.0) + row[measure]
    if not by_file:
        return {"missing": _no_lines(asked, parts)}
    made = datetime.fromisoformat(asked.recording.meta.created).timestamp()
    ordered = sorted(by_file, key=lambda file: (-cost[file], file))
    files = []
    for file in ordered[:FILES]:
        found = read_source(file, by_file[file], folders, made) if folders is not None else None
        files.append(
            {
                "file": file,
                "numbers": [[line, by_file[file][line]] for line in sorted(by_file[file])],
                "newer": bool(found and found.newer),
                "length": found.lines if found else 0,
                "pieces": msgspec.to_builtins(found.pieces) if found else [],
            }
        )
    return {"files": files, "total": len(ordered)}


def _add(numbers: dict[str, Any], row: dict[str, Any], part: str) -> None:
    if part == "time":
        numbers["cycles"] = numbers.get("cycles", 0) + row["cycles"]
        numbers.setdefault("main", row["main"])
        return
    for name in ("misses", "sampled", "latency", "latency_share"):
        if row[name] is not None:
            numbers[name] = numbers.get(name, 0) + row[name]
    numbers.setdefault("function", row["function"])


def _no_lines(asked: _Asked, parts: dict[str, Part]) -> dict[str, str]:
    missing: dict[str, str] | None = parts["lines"].get("missing")
    if missing is not None:
        return missing
    return {
        "what": "no line of a source file is known",
        "why": "the program was compiled without debug information",
        "now": "compile it with -g and record it again",
    }


def _rows(part: Part) -> Iterable[dict[str, Any]]:
    for row in part.get("rows", ()):
        yield dict(zip(part["columns"], row, strict=True))


def _shortened(value: Any) -> Any:
    """Names may be of any length; what is left of a long one still tells it from others."""
    if isinstance(value, str):
        if len(value) <= LONGEST:
            return value
        return f"{value[: LONGEST * 2 // 3]} … {value[-LONGEST // 3 :]}"
    if isinstance(value, dict):
        return {name: _shortened(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_shortened(entry) for entry in value]
    return value


def _fitted(document: dict[str, Any], budget: int) -> dict[str, Any]:
    """Within a budget of bytes: the largest tables lose rows, and the document says how many."""
    tables = _tables(document["parts"])
    while len(msgspec.json.encode(document)) > budget:
        largest = max(tables.values(), key=lambda t: len(msgspec.json.encode(t["rows"])))
        if len(largest["rows"]) < 20:
            break
        largest["rows"] = largest["rows"][: len(largest["rows"]) // 2]
    for name, found in tables.items():
        if len(found["rows"]) < found["total"]:
            document["left_out"].append(
                f"{name}: the first {len(found['rows']):,} of {found['total']:,} rows"
            )
    files = document["parts"]["source"]
    if files.get("total", 0) > len(files.get("files", ())):
        document["left_out"].append(
            f"source: the {len(files['files'])} files of {files['total']} that cost most"
        )
    return document


def _tables(parts: dict[str, Part]) -> dict[str, Part]:
    found = {}
    for name, part in parts.items():
        for key, value in [("", part), *part.items()]:
            if isinstance(value, dict) and "columns" in value and "rows" in value:
                found[f"{name} {key.replace('_', ' ')}".strip()] = value
    return found
