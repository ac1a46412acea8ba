# SPDX-License-Identifier: Apache-2.0
"""Reference strings as programs make them, drawn by a seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

BASE = 0x7F0000
ORACLE = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])


def zipf(references: int, pages: int, seed: int = 1) -> np.ndarray:
    """Zipf's law: the page of rank r with a chance of 1/r, in no order."""
    random = np.random.default_rng(seed)
    chances = np.cumsum(1 / np.arange(1, pages + 1))
    ranks = np.searchsorted(chances, random.random(references) * chances[-1])
    return (BASE + random.permutation(pages)[ranks]).astype(np.uint64)


def mixed(references: int, pages: int, seed: int = 1) -> np.ndarray:
    """In turns: Zipf's law, any page, a loop over half of the pages."""
    random = np.random.default_rng(seed)
    turn = references // 30 + 1
    popular = zipf(references, pages, seed)
    parts = []
    for i in range(10):
        loop = (np.arange(turn) + i * turn) % (pages // 2)
        parts += [popular[i * turn : (i + 1) * turn], BASE + random.integers(0, pages, turn)]
        parts.append(BASE + loop)
    return np.concatenate(parts)[:references].astype(np.uint64)


def loop_and_noise(references: int, pages: int, seed: int = 1) -> np.ndarray:
    """Half of the references go round a third of the pages, half anywhere in another third."""
    random = np.random.default_rng(seed)
    loop = np.arange(references) % (pages // 3)
    noise = pages // 3 + random.integers(0, pages // 3, references)
    return (BASE + np.where(random.random(references) < 0.5, loop, noise)).astype(np.uint64)


def write_oracle(pages: np.ndarray, path: Path) -> None:
    """libCacheSim's format of a trace whose rows know when their page comes next."""
    rows = np.zeros(len(pages), ORACLE)
    rows["time"] = np.arange(len(pages)) // 1000
    rows["id"] = pages
    rows["size"] = 1
    rows["next"] = -1
    order = np.argsort(pages, kind="stable")
    same = pages[order][1:] == pages[order][:-1]
    rows["next"][order[:-1][same]] = order[1:][same]
    rows.tofile(path)
