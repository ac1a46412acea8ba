# SPDX-License-Identifier: Apache-2.0
"""Writes the declarations out: a C header for capture and engine, C++ tables, and JSON for Python.

Run as `python -m schemas.generate FOLDER`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from schemas import records, ring, tables
from schemas.declare import SCALARS, Choice, Record, Table

NOTICE = (
    "// SPDX-License-Identifier: Apache-2.0\n// Generated from schemas/ by schemas/generate.py.\n"
)


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def c_choice(choice: Choice) -> str:
    rows = [
        f"  SS_{choice.name.upper()}_{name.upper()} = {number}, /* {meaning} */"
        for name, number, meaning in choice.members
    ]
    return f"/* {choice.meaning} */\nenum ss_{choice.name} {{\n" + "\n".join(rows) + "\n};\n"


def c_record(record: Record) -> str:
    lines = ["  ss_word head;", "  ss_word when; /* instructions executed before */"]
    lines += [f"  ss_word {f.name}; /* {f.meaning} */" for f in record.fields]
    if record.tail:
        lines.append(f"  /* tail: {record.tail} */")
    return (
        f"/* {record.meaning} */\n#define SS_{record.name.upper()} {record.tag}\n"
        f"struct ss_{record.name} {{\n" + "\n".join(lines) + "\n};\n"
    )


def c_header() -> str:
    parts = [
        NOTICE.replace("// ", "/* ", 1).replace("\n// ", "\n   ").rstrip("\n") + " */\n",
        "#ifndef STALLSCOPE_RECORDS_H\n#define STALLSCOPE_RECORDS_H\n",
        "/* Needs no C library: the capture tool has none. */\n",
        "typedef unsigned long long ss_word;\n",
        f"#define SS_STREAM_VERSION {records.STREAM_VERSION}",
        f"#define SS_BLOCK_TAG {records.BLOCK_TAG:#x}ULL",
        f"#define SS_NO_ADDRESS {records.NO_ADDRESS:#x}ULL\n",
        "#define SS_HEAD(tag, words, thread) \\",
        "  (((ss_word)(tag) << 56) | ((ss_word)(words) << 32) | (ss_word)(thread))",
        "#define SS_BLOCK_HEAD(exit, operations) SS_HEAD(SS_BLOCK_TAG, 1 + (operations), exit)",
        "#define SS_HEAD_TAG(head) ((unsigned)((head) >> 56))",
        "#define SS_HEAD_WORDS(head) ((unsigned)(((head) >> 32) & 0xffffff))",
        "#define SS_HEAD_THREAD(head) ((unsigned)((head) & 0xffffffff))\n",
    ]
    parts += [c_choice(choice) for choice in records.CHOICES]
    parts += [c_record(record) for record in records.RECORDS]
    parts.append(ring.c_declaration())
    parts.append("#endif\n")
    return "\n".join(parts)


def cpp_choice(choice: Choice) -> str:
    rows = "".join(f'    case {number}: return "{name}";\n' for name, number, _ in choice.members)
    return (
        f"inline const char* {choice.name}_name(std::uint64_t number) {{\n"
        f'  switch (number) {{\n{rows}    default: return "?";\n  }}\n}}\n'
    )


def cpp_record_names() -> str:
    rows = "".join(f'    case {r.tag}: return "{r.name}";\n' for r in records.RECORDS)
    words = "".join(
        f"    case {r.tag}: return {{{2 + len(r.fields)}, {'true' if r.tail else 'false'}}};\n"
        for r in records.RECORDS
    )
    return (
        "// nullptr for a tag that no record has.\n"
        "inline const char* record_name(unsigned tag) {\n  switch (tag) {\n"
        + rows
        + "    default: return nullptr;\n  }\n}\n\n"
        "// The words before the tail (0 for an unknown tag), and whether there is a tail.\n"
        "struct RecordShape {\n  unsigned words;\n  bool tail;\n};\n"
        "inline RecordShape record_shape(unsigned tag) {\n  switch (tag) {\n"
        + words
        + "    default: return {0, false};\n  }\n}\n"
    )


def cpp_type(column_type: str) -> tuple[str, str]:
    """(row member, column member) types."""
    if column_type in SCALARS:
        return SCALARS[column_type][1], f"std::vector<{SCALARS[column_type][1]}>"
    return "std::string_view", "StringColumn"


def cpp_table(table: Table) -> str:
    name = camel(table.name)
    row = "".join(f"  {cpp_type(c.type)[0]} {c.name}{{}};  // {c.meaning}\n" for c in table.columns)
    columns = "".join(f"  {cpp_type(c.type)[1]} {c.name};\n" for c in table.columns)
    append = "".join(f"    {c.name}.push_back(row.{c.name});\n" for c in table.columns)
    reserve = "".join(f"    {c.name}.reserve(rows);\n" for c in table.columns)
    visit = "".join(f'    visit("{c.name}", {c.name});\n' for c in table.columns)
    return (
        f"// {table.meaning}\nstruct {name}Row {{\n{row}}};\n"
        f'struct {name}Table {{\n  static constexpr const char* kName = "{table.name}";\n{columns}'
        f"  std::size_t rows() const {{ return {table.columns[0].name}.size(); }}\n"
        f"  void append(const {name}Row& row) {{\n{append}  }}\n"
        f"  void reserve(std::size_t rows) {{\n{reserve}  }}\n"
        "  template <typename Visitor>\n"
        f"  void for_each_column(Visitor&& visit) {{\n{visit}  }}\n}};\n"
    )


def cpp_header() -> str:
    parts = [
        NOTICE,
        "#pragma once\n",
        "#include <cstdint>\n#include <string>\n#include <string_view>\n#include <vector>\n",
        "namespace stallscope {\n",
        f"inline constexpr std::uint64_t kNever = {tables.NEVER:#x};",
        f"inline constexpr std::uint32_t kNone32 = {tables.NONE32:#x};\n",
        "struct StringColumn {\n"
        "  std::vector<std::int64_t> offsets{0};\n  std::string data;\n"
        "  std::size_t size() const { return offsets.size() - 1; }\n"
        "  void push_back(std::string_view text) {\n    if (!text.empty()) data.append(text);\n"
        "    offsets.push_back(static_cast<std::int64_t>(data.size()));\n  }\n"
        "  void reserve(std::size_t rows) {\n    offsets.reserve(rows + 1);\n"
        "    data.reserve(8 * rows);\n  }\n"
        "  std::string_view operator[](std::size_t i) const {\n"
        "    return std::string_view(data).substr(offsets[i], offsets[i + 1] - offsets[i]);\n  }\n"
        "};\n",
    ]
    parts += [cpp_choice(choice) for choice in records.CHOICES]
    parts.append(cpp_record_names())
    parts += [cpp_table(table) for table in tables.EVERY]
    parts.append("}  // namespace stallscope\n")
    return "\n".join(parts)


def _described(declared: tuple[Table, ...]) -> dict[str, object]:
    return {
        t.name: {
            "meaning": t.meaning,
            "columns": [
                {
                    "name": c.name,
                    "type": c.type,
                    "meaning": c.meaning,
                    "unit": c.unit,
                    "none": c.none,
                }
                for c in t.columns
            ],
        }
        for t in declared
    }


def schemas_json() -> str:
    document = {
        "format_version": tables.FORMAT_VERSION,
        "stream_version": records.STREAM_VERSION,
        "choices": {
            c.name: {name: number for name, number, _ in c.members} for c in records.CHOICES
        },
        "tables": _described(tables.TABLES),
        "captured": _described(tables.CAPTURED),
        "sampled": _described(tables.SAMPLED),
        "results": _described(tables.RESULTS),
        "on_request": _described(
            (*tables.ON_REQUEST, *tables.PIPELINE, *tables.SHARING, *tables.WATCHING)
        ),
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def tables_page() -> str:
    """docs/tables.md: every table and column, as declared."""
    parts = [
        "# The tables of a recording\n\nMade by `make docs` from `schemas/tables.py`. Times are "
        "instructions that the process had executed.\n"
    ]
    for table in tables.EVERY:
        rows = "".join(
            f"| `{c.name}` | {c.type} | {c.meaning}{f' ({c.unit})' if c.unit else ''} |\n"
            for c in table.columns
        )
        parts.append(
            f"## {table.name}\n\n{table.meaning}\n\n"
            f"| column | type | meaning |\n|---|---|---|\n{rows}"
        )
    return "\n".join(parts)


def main() -> None:
    if sys.argv[1] == "--docs":
        Path(sys.argv[2]).write_text(tables_page())
        return
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("stallscope_records.h", c_header()),
        ("stallscope_tables.h", cpp_header()),
        ("schemas.json", schemas_json()),
    ):
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        else:
            path.touch()


if __name__ == "__main__":
    main()
