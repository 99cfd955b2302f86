"""Every example for LlamaIndex runs as it stands, offline, and the guide's tables are complete."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from llama_index.postprocessor.secondpass import SecondPassRerank

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "llama_index"
SCRIPTS = sorted(EXAMPLES.glob("[!_]*.py"))
GUIDE = ROOT / "docs" / "llama_index.md"

ROW = re.compile(r"^ *(\d+) +(\S+) +(\S+)  (\w+) +(\w.*)$", re.MULTILINE)

EXPECTED: dict[str, list[tuple[str, list[str], str]]] = {
    "cascade_with_llm": [
        (
            "ok, by lexical, then listwise by scripted",
            ["A sourdough", "Wheat bread", "Which flour", "Bread rolls", "Trains", "The oven"],
            "",
        ),
        (
            "degraded, by lexical, then listwise by scripted",
            ["Which flour", "A sourdough", "Wheat bread", "Bread rolls", "Trains", "The oven"],
            "connection: this stage scored nothing",
        ),
    ],
    "for_learners": [
        (
            "ok, by graded by scripted",
            ["No measure", "That bread", "Every swan", "To justify", "Hume was", "Induction"],
            "",
        ),
        (
            "ok, by graded by scripted",
            ["Every swan", "Hume was", "Induction", "That bread", "To justify", "No measure"],
            "",
        ),
    ],
    "hybrid_query_engine": [
        (
            "degraded, by all-MiniLM-L6-v2-int8",
            ["A single file", "To get back", "The file with"],
            "model_not_loaded: the model 'cross-encoder/ettin-reranker-32m-v1' cannot be loaded",
        ),
    ],
    "memory_search": [
        (
            "ok, by graded by scripted",
            ["Ana is allergic", "Ana liked", "Ana cooks", "Bought a new"],
            "left out: 1, floor",
        ),
    ],
}
"""By script: of each table the status, how its texts begin, and what else is said below."""


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No key, and a hub cache in which no model is."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path))
    monkeypatch.syspath_prepend(EXAMPLES)
    yield
    sys.modules.pop("_shared", None)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_prints_what_it_should(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # As where only the extra `embedded` is installed: to import torch takes a while.
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    tables = capsys.readouterr().out.split("rank   score")[1:]
    assert len(tables) == len(EXPECTED[script.stem])
    for table, (status, texts, told) in zip(tables, EXPECTED[script.stem], strict=True):
        rows = ROW.findall(table)
        assert [int(rank) for rank, *_ in rows] == list(range(1, len(texts) + 1))
        assert [text[: len(start)] for (*_, text), start in zip(rows, texts, strict=True)] == texts
        scores = [float(score) for _, score, *_ in rows]
        assert scores == sorted(scores, reverse=True)
        assert f"\nstatus: {status}\n" in table
        assert told in table.split("status: ", 1)[1]


@pytest.mark.parametrize("page", [EXAMPLES / "README.md", GUIDE], ids=lambda page: page.name)
def test_the_pages_name_every_example(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [script.name for script in SCRIPTS if script.name not in text] == []


def test_the_guide_has_a_row_for_every_parameter() -> None:
    section = GUIDE.read_text(encoding="utf-8").split("\n## Parameters\n")[1].split("\n## ")[0]
    told = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert sorted(told) == sorted(SecondPassRerank.model_fields)
