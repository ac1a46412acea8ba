# SPDX-License-Identifier: Apache-2.0
"""Colours that people with any colour vision can tell apart, on a light background.

Groups have the colours of Okabe and Ito; shares have a ramp whose lightness only falls.
"""

from __future__ import annotations

from collections.abc import Iterable

from stallscope.views.plots.picture import OTHERS, Bars

Fill = tuple[str, str]  # of the area, of its outline

INK = "#1a1a1a"
DIM = "#595959"
LINE = "#d0d0d0"
PAPER = "#ffffff"
FRAME = "#d55e00"  # around what an object does to itself

_KNOWN = {
    "heap": "#0072b2",
    "global": "#e69f00",
    "stack": "#009e73",
    "mapping": "#cc79a7",
    "named": "#56b4e9",
    "unknown": "#d55e00",
    "code": "#0072b2",
    "cold": "#56b4e9",
    "capacity": "#e69f00",
    "conflict": "#d55e00",
    # Why cycles were lost; what was none is grey.
    "completion": "#c8c8c8",
    "data_cache": "#0072b2",
    "translation": "#56b4e9",
    "load_store": "#009e73",
    "rejection": "#cc79a7",
    "fpu": "#f0e442",
    "iu": "#e69f00",
    "branch_mispredict": "#d55e00",
    "inst_cache": "#661100",
    "other": "#808080",
    OTHERS: "#999999",
}
_SPARE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")
_RAMP = ((247, 251, 255), (198, 219, 239), (107, 174, 214), (33, 113, 181), (8, 48, 107))
STEPS = 20  # of the ramp


def colours(groups: Iterable[str]) -> dict[str, str]:
    """A colour for each group, in the order in which they first appear."""
    found: dict[str, str] = {}
    for group in groups:
        if group not in found:
            free = [colour for colour in _SPARE if colour not in found.values()]
            found[group] = _KNOWN.get(group) or (free or _SPARE)[0]
    return found


def tint(colour: str) -> str:
    """The same, lighter: for what is estimated beside what is exact."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * 0.65):02x}" for part in parts)


def step(share: float) -> int:
    return round(min(max(share, 0.0), 1.0) * STEPS)


def ramp(number: int) -> str:
    place = number / STEPS * (len(_RAMP) - 1)
    low = min(int(place), len(_RAMP) - 2)
    pairs = zip(_RAMP[low], _RAMP[low + 1], strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (place - low)):02x}" for a, b in pairs)


def ink_on(number: int) -> str:
    """Text that can be read on a step of the ramp."""
    return PAPER if number > STEPS * 0.55 else INK


def fills(bars: Bars, colour: str) -> list[list[Fill]]:
    """For each panel and series of a row whose group has this colour."""
    found: list[list[Fill]] = []
    for panel in bars.panels:
        if panel.stacked:
            chosen = colours(panel.series)
            found.append([(chosen[name], "none") for name in panel.series])  # nothing for zero
        else:
            light = (tint(colour), colour)
            found.append([(colour, colour), *[light] * (len(panel.series) - 1)])
    return found


def legend(bars: Bars, groups: dict[str, str]) -> list[tuple[str, Fill]]:
    """What the colours stand for, and which of the bars of one colour is which."""
    entries = [(name, (colour, colour)) for name, colour in groups.items()] if bars.group else []
    plain = INK if bars.group else next(iter(groups.values()))
    for panel, series in zip(bars.panels, fills(bars, plain), strict=True):
        if panel.stacked:
            entries += list(zip(panel.series, series, strict=True))
        elif len(panel.series) > 1:
            names = [f"{name} ({'light' if n else 'solid'})" for n, name in enumerate(panel.series)]
            entries += list(zip(names, series, strict=True))
    return entries
