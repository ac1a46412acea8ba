# SPDX-License-Identifier: Apache-2.0
"""What a person should know first: who is guilty, where, by how much, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from stallscope.analyses.crossings import CrossingRow

if TYPE_CHECKING:
    from stallscope.analyses.advise import AdviceRow, Advise
    from stallscope.analyses.evictions import Evictions
    from stallscope.analyses.false_sharing import LineRow
    from stallscope.analyses.live import LiveObjects
    from stallscope.analyses.objects import Objects
    from stallscope.analyses.pages import Pages
    from stallscope.analyses.sharing import Sharing
    from stallscope.analyses.stalls import Stalls

LITTLE = 0.1  # share of the cycles below which waiting is not what a program suffers from
WAITING = ("data_cache", "translation")  # causes that are memory's


@dataclass(frozen=True)
class Piece:
    """Words of a sentence; those with a `kind` lead somewhere: to an object, function, line or
    part."""

    text: str
    kind: str = ""
    name: str = ""
    line: int | None = None


@dataclass(frozen=True)
class Verdict:
    headline: list[Piece]
    sentences: list[list[Piece]]
    object: str | None = None  # the guilty one
    function: str | None = None
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class Known:
    """Whatever is known of a recording; the more, the more is said."""

    objects: Objects | LiveObjects | None = None
    crossings: Sequence[CrossingRow] = ()
    evictions: Evictions | None = None
    stalls: Stalls | None = None
    sharing: Sharing | None = None
    pages: Pages | None = None
    advice: Advise | None = None


def verdict(known: Known) -> Verdict:
    if known.objects is None or not known.objects.rows:
        return Verdict([Piece("Nothing was seen waiting for memory.")], list(_others(known)))
    shared = _shared_line(known)
    if shared is not None:
        sentences = [_passed_around(shared), *_others(known)]
        return Verdict(_shared_headline(shared), sentences, shared.object)
    top = known.objects.rows[0]
    where = next((row for row in known.crossings if row.object == top.object), None)
    sentences = [_where(known.objects, where)] if where is not None else []
    sentences += [*_evictions(known, top.object), *_others(known)]
    return Verdict(
        headline=_headline(known.objects, _waiting(known)),
        sentences=sentences,
        object=top.object,
        function=where.function if where else None,
        file=where.file if where else None,
        line=where.line if where else None,
    )


def _waiting(known: Known) -> float | None:
    """The share of the run that goes into waiting for data, where that is known."""
    if known.stalls is not None and known.stalls.cycles:
        cycles = sum(row.cycles for row in known.stalls.causes if row.cause in WAITING)
        return cycles / known.stalls.cycles
    found = known.objects
    if found is not None and found.misses is None and found.samples:
        return float(getattr(found, "waiting", 0)) / found.samples
    return None


def _headline(objects: Objects | LiveObjects, waiting: float | None) -> list[Piece]:
    top = objects.rows[0]
    if waiting is not None and waiting < LITTLE:
        return [
            Piece(
                f"Memory is not what this program suffers from: {waiting:.0%} of its time waits. "
            ),
            Piece(f"Of that, {top.latency_share:.0%} is for "),
            _named(top.object),
            Piece("."),
        ]
    whole = "" if waiting is None else f"{waiting:.0%} of the time is spent waiting for memory, "
    share = f"{top.latency_share:.0%} of {'it' if whole else 'the waiting for memory is'} for "
    return [Piece(whole + share), _named(top.object), Piece(f"{_what(top)}.")]


def _named(name: str) -> Piece:
    return Piece(name.split(" < ")[0], "object", name)


def _what(row: object) -> str:
    """How many blocks of what type, as far as that is known."""
    blocks, kind = getattr(row, "blocks", None), getattr(row, "type", "")
    size = getattr(row, "bytes", None)
    words = []
    if getattr(row, "kind", "") == "heap" and blocks:
        words.append(f"{blocks:,} heap block{'s' if blocks != 1 else ''}")
    if kind:
        words.append(f"{'of ' if words else ''}{kind}")
    if size:
        words.append(f"{amount(size)} in all" if words else amount(size))
    return f" ({', '.join(words)})".replace(", of ", " of ") if words else ""


def _where(objects: Objects | LiveObjects, row: CrossingRow) -> list[Piece]:
    place = f"{PurePath(row.file).name}:{row.line}" if row.file and row.line else row.function
    pieces = [
        Piece(f"{row.share:.0%} of that happens at "),
        Piece(place, "line", row.file, row.line) if row.line else Piece(place),
        Piece(" in "),
        Piece(row.function, "function", row.function),
    ]
    if row.misses is None:
        return [*pieces, Piece(f": {row.sampled:,} samples found it waiting there.")]
    return [
        *pieces,
        Piece(f": {row.misses:,} misses of {objects.level}, {row.latency:,} cycles of latency."),
    ]


def _evictions(known: Known, name: str) -> Iterator[list[Piece]]:
    """Who throws the guilty one out, of the level that is counted."""
    if known.evictions is None or known.objects is None:
        return
    level = known.objects.level
    rows = [r for r in known.evictions.rows if r.level == level and r.evicted == name]
    if not rows:
        return
    first = max(rows, key=lambda row: row.count)
    if first.by == name:
        yield [
            Piece(f"It throws itself out: {first.share:.0%} of the "),
            Piece("evictions", "part", "evictions"),
            Piece(f" of its lines from {level} are by lines of its own; it does not fit."),
        ]
        return
    yield [
        Piece(f"{first.share:.0%} of the "),
        Piece("evictions", "part", "evictions"),
        Piece(f" of its lines from {level} are by "),
        _named(first.by),
        Piece("."),
    ]


def _shared_line(known: Known) -> LineRow | None:
    """Where threads waste most on a line that they need not share, that comes first."""
    if known.sharing is None:
        return None
    gains = [row for row in known.sharing.lines if (row.predicted_gain or 0) >= LITTLE]
    return max(gains, key=lambda row: row.predicted_gain or 0) if gains else None


def _shared_headline(row: LineRow) -> list[Piece]:
    return [
        Piece(f"{len(row.threads)} threads "),
        Piece("share", "part", "sharing"),
        Piece(" a cache line that none of them needs to share: "),
        Piece(f"{row.object} ({row.field})" if row.field else row.object),
        Piece(f". Lines of their own would save {row.predicted_gain:.0%} of all cycles."),
    ]


def _passed_around(row: LineRow) -> list[Piece]:
    where = f", mostly at {row.code[0]}" if row.code else ""
    return [
        Piece(
            f"It goes from cache to cache {row.misses:,} times{where}; "
            f"{row.cycles:,} cycles wait for that."
        )
    ]


def _others(known: Known) -> Iterator[list[Piece]]:
    if known.advice is not None and known.advice.rows:
        yield _advised(known.advice.rows[0])
    if known.stalls is not None and known.stalls.stall_cycles:
        yield _stalls(known.stalls)
    found = known.sharing
    if found is not None and found.remote_share >= LITTLE / 10:
        yield [
            Piece(f"{found.remote_share:.0%} of the threads' cycles wait for caches of other "),
            Piece("threads", "part", "sharing"),
            Piece(f" (on {found.machine}): {found.remote_misses:,} remote misses."),
        ]
    if known.pages is not None and known.pages.knee.pages:
        size = known.pages.knee.pages * known.pages.page_size
        yield [
            Piece("It touches "),
            Piece(amount(known.pages.footprint_bytes), "part", "pages"),
            Piece(f" of memory; below about {amount(size)} page misses grow quickly."),
        ]


def _advised(row: AdviceRow) -> list[Piece]:
    """The change that saves most, as a replay with it found."""
    return [
        Piece(f"What would help most: {row.how.rstrip('.')}; for "),
        _named(row.object),
        Piece(f" that saves {row.predicted_share:.0%} of all cycles, by replay."),
    ]


def _stalls(found: Stalls) -> list[Piece]:
    first = max(found.causes, key=lambda row: row.cycles)
    return [
        Piece("The simulated processor needs "),
        Piece(f"{found.cpi:.2f} cycles an instruction", "part", "time"),
        Piece(
            f", of which {found.completion_cpi:.2f} do work; "
            f"{first.cycles / found.cycles:.0%} of all cycles wait for "
            f"{first.cause.replace('_', ' ')}."
        ),
    ]


def amount(size: float) -> str:
    """Bytes for people."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:,.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError
