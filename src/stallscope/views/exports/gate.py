# SPDX-License-Identifier: Apache-2.0
"""What a gate found, as continuous integration reads it: JUnit XML, and Markdown for a pull
request."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from stallscope.analyses.check import Check, CheckRow


def junit(result: Check) -> str:
    suite = ElementTree.Element(
        "testsuite",
        name="stallscope check",
        tests=str(result.checked),
        failures=str(result.failed),
        errors="0",
    )
    for row in result.rows:
        name = f"{row.measure} of {row.kind} {row.name}"
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"stallscope.{row.kind}", name=_xml(name)
        )
        if not row.passed:
            failure = ElementTree.SubElement(case, "failure", message=_xml(row.words))
            failure.text = _xml(row.words)
    whole = ElementTree.Element("testsuites")
    whole.append(suite)
    ElementTree.indent(whole)
    return ElementTree.tostring(whole, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    """XML has no way to write most control characters."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def markdown(result: Check) -> str:
    verdict = "passed" if result.passed else f"{result.failed} of {result.checked} checks failed"
    lines = [f"### Stallscope: {verdict}", ""]
    failed = [row for row in result.rows if not row.passed]
    if failed:
        lines += ["| before | now | limit | cycles | what |", "|---:|---:|---:|---:|---|"]
        lines += [_line(row) for row in failed]
        lines.append("")
    against = f" Baseline: {_plain(result.baseline)}." if result.baseline else ""
    lines.append(f"{result.checked} checks on the machine {_plain(result.machine)}.{against}")
    return "\n".join(lines) + "\n"


def _line(row: CheckRow) -> str:
    numbers = ["" if n is None else f"{n:,.0f}" for n in (row.before, row.now, row.limit)]
    cost = "" if row.cost is None else f"{row.cost:+,}"
    return f"| {' | '.join([*numbers, cost, _plain(row.words)])} |"


def _plain(text: str) -> str:
    """Names of symbols may hold anything, also what Markdown or HTML would obey."""
    shown = _xml(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{c}" if c in "\\`*_{}[]()#|~" else c for c in shown)
