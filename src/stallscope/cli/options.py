# SPDX-License-Identifier: Apache-2.0
"""Options that several verbs share, so that they look and act the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Size(click.ParamType[int]):
    """A number of bytes: 500, 64K, 2G."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", str(value).strip(), re.I)
        if not match:
            self.fail(f"{value!r} is no size; write 500K, 64M or 2G", param, ctx)
        return int(float(match[1]) * _UNITS[match[2].upper()])


class Count(click.ParamType[int]):
    """A number of things: 500, 10k, 2.5M, 1e9."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?(?:e\d+)?)([kmg]?)", str(value).strip(), re.I)
        if not match:
            self.fail(f"{value!r} is no count; write 500, 10k, 2.5M or 1e9", param, ctx)
        return int(float(match[1]) * {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}[match[2].lower()])


class PictureFile(click.ParamType[Path]):
    """A file to draw into; its name says how."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        from stallscope.views import plots

        return plots.check(value)


def recording_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("recording", required=False, type=click.Path())(function)


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(
        function
    )


def csv_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--csv", "as_csv", is_flag=True, help="Print the table as CSV.")(function)


def limit_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--limit",
        type=click.IntRange(min=0),
        help="Rows to show; 0 for all [20; all with --json and --csv].",
    )(function)


def plot_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--plot",
        type=PictureFile(),
        metavar="FILE.png|.svg|.html",
        help="Also draw a picture into this file.",
    )(function)
