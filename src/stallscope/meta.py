# SPDX-License-Identifier: Apache-2.0
"""meta.json: what a recording says about itself. Written whole, checked whole."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec

from stallscope import __version__
from stallscope.errors import StallscopeError
from stallscope.tables import schemas

NAME = "meta.json"


class File(msgspec.Struct, frozen=True):
    """A table's file, so that damage anywhere in it is noticed."""

    bytes: int
    sha256: str


class Meta(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format_version: int
    stallscope: str
    state: str  # "recording" until the recorder has written everything, then "done"
    name: str  # PID.IMAGE
    parent: str | None  # name of the process image that this one came from
    command: list[str]
    folder: str  # working directory
    created: str  # ISO 8601, UTC
    source: str
    machine: str
    options: dict[str, Any]
    host: dict[str, Any]
    pid: int = 0
    forked: bool = False
    ending: str = "unknown"  # exit, signal, exec, killed or unknown
    exit_code: int | None = None
    signal: int | None = None
    complete: bool = False
    trace: bool = False
    counted: bool = True
    measured_all: bool = True
    seconds: float | None = None
    instructions: int = 0
    loads: int = 0
    stores: int = 0
    allocations: int = 0
    frees: int = 0
    peak_heap_bytes: int = 0
    threads: int = 0
    stream_bytes: int = 0
    samples: int = 0  # this and what follows: of recordings at native speed
    lost_samples: int = 0
    sample_period: int = 0  # nanoseconds or events
    cpu_seconds: float | None = None  # of the process and its children, where we waited for it
    files: dict[str, File] = {}
    checksum: str = ""


def as_text(word: str) -> str:
    """An argument or a path as text: bytes of it that are none are shown escaped."""
    return os.fsencode(word).decode("utf-8", "backslashreplace")


def digest(path: Path) -> File:
    with path.open("rb") as file:
        return File(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def _checksum(facts: dict[str, Any]) -> str:
    """Of what is written, not of what this version knows: earlier ones wrote less."""
    bare = facts | {"checksum": ""}
    return hashlib.sha256(msgspec.json.encode(bare, order="sorted")).hexdigest()


def write(meta: Meta, folder: Path) -> None:
    """Replaces meta.json in one step, so that a reader sees the old or the new one."""
    signed = msgspec.structs.replace(meta, checksum=_checksum(msgspec.to_builtins(meta)))
    text = msgspec.json.format(msgspec.json.encode(signed), indent=1)
    fresh = folder / f"{NAME}.new"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text + b"\n")
    fresh.rename(folder / NAME)


def read(folder: Path) -> Meta:
    path = folder / NAME
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StallscopeError(
            f"{folder} is not a recording",
            f"{NAME}: {error.strerror}",
            "give a folder that stallscope record made",
        ) from error
    try:
        version = msgspec.json.decode(data, type=_Version).format_version
        if version > schemas().format_version:
            raise StallscopeError(
                f"{folder} was made by a newer Stallscope",
                f"its format is {version}, this version ({__version__}) reads up to "
                f"{schemas().format_version}",
                "pip install --upgrade stallscope",
            )
        meta = msgspec.json.decode(data, type=Meta)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StallscopeError(
            f"{path} is damaged", str(error), "record the program again"
        ) from error
    if meta.checksum != _checksum(msgspec.json.decode(data)):
        raise StallscopeError(
            f"{path} is damaged", "its checksum does not fit", "record the program again"
        )
    return meta


class _Version(msgspec.Struct):
    format_version: int
