# SPDX-License-Identifier: Apache-2.0
"""Results as documents for programs: JSON and CSV."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


def json_text(verb: str, result: Any) -> str:
    """One document: the result's fields behind the schema's name."""
    body = msgspec.to_builtins(result, enc_hook=str)
    document = {"schema": f"stallscope.{verb}/1", **body}
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def print_json(verb: str, result: Any) -> None:
    sys.stdout.write(json_text(verb, result))


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        return
    writer = csv.DictWriter(sys.stdout, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
