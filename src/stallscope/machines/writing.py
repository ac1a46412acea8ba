# SPDX-License-Identifier: Apache-2.0
"""A Machine as a machine file: every key, so that it can be read and changed."""

from __future__ import annotations

import json
from typing import Any

from stallscope.machines.keys import SECTIONS, Key, size_text
from stallscope.machines.model import Machine


def to_toml(machine: Machine) -> str:
    parts = []
    for section in SECTIONS:
        found: Any = getattr(machine, section.field) if section.name else machine
        for part in found if section.repeated else (found,):
            lines = [section.title] if section.name else []
            for key in section.keys:
                value = getattr(part, key.name)
                if value != "" or key.name == "description":
                    lines.append(f"{key.name} = {_value(key, value)}")
            parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _value(key: Key, value: Any) -> str:
    if key.kind == "size":
        text = size_text(value)
        return text if text.isdigit() else f'"{text}"'
    # JSON's strings are TOML's, but for pairs of surrogates and DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
