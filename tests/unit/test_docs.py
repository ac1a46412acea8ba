# SPDX-License-Identifier: Apache-2.0
"""Pages point to what is there, and their examples are such as `make pictures` runs again."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from stallscope import workloads
from stallscope.cli.main import QUESTIONS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = [page for page in PAGES if "<!-- example:" in page.read_text()]


def pattern() -> re.Pattern[str]:
    spec = importlib.util.spec_from_file_location("docs_examples", ROOT / "docs" / "examples.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: re.Pattern[str] = module.EXAMPLE
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("verb", [verb for verbs in QUESTIONS.values() for verb in verbs])
def test_every_verb_has_a_page_that_the_readme_leads_to(verb: str) -> None:
    cells = [line.split("|")[1] for line in PAGES[0].read_text().splitlines() if "|" in line]
    linked = [
        ROOT / page
        for cell in cells
        if re.search(rf"`{verb}[ `]", cell)
        for page in re.findall(r"\]\((docs/[\w-]+\.md)", cell)
    ]
    assert any(f"stallscope {verb}" in page.read_text() for page in linked)


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.name)
def test_examples_have_a_workload_a_verb_their_output_and_their_picture(page: Path) -> None:
    text = page.read_text()
    found = list(pattern().finditer(text))
    assert len(found) == text.count("<!-- example:")
    verbs = [verb for verbs in QUESTIONS.values() for verb in verbs]
    for example in found:
        assert set(example["program"].split()) & set(workloads.names())
        words = shlex.split(example["words"])
        assert words[0] in verbs
        assert example[0].count("\n") > 5
        assert f"$ stallscope {example['words']}\n" in example[0]
        if "--plot" in words:
            assert (page.parent / words[words.index("--plot") + 1]).is_file()
