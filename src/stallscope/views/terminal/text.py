# SPDX-License-Identifier: Apache-2.0
"""Numbers and names as people read them in a terminal."""

from __future__ import annotations


def amount(number: float) -> str:
    """1234567 -> 1.23 M"""
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if number >= limit:
            return f"{number / limit:.2f} {unit}"
    return f"{number:,.0f}"


def size(number: float) -> str:
    """1536 -> 1.5 KiB"""
    for limit, unit in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if number >= limit:
            return f"{number / limit:.1f} {unit}"
    return f"{number:.0f} B"


def duration(seconds: float) -> str:
    """75.2 -> 1m15s"""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m{rest:02d}s" if hours else f"{minutes}m{rest:02d}s"


def clean(text: str) -> str:
    """Text that cannot steer a terminal: escape codes and direction marks are shown, not obeyed."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def many(count: int, noun: str) -> str:
    """Things counted: `1 host`, `2 hosts`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
