import re
import runpy
import sys
from pathlib import Path

import pytest

from remembered_model import remember
from secondpass_evaluation import write_corpus, write_qrels, write_queries
from topic_suites import SUITE

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "four_modes.py"


def test_prints_all_modes(tmp_path: Path, monkeypatch, capsys) -> None:
    remember(monkeypatch)
    folder = tmp_path / "wombats"
    folder.mkdir()
    write_corpus(folder / "corpus.jsonl", SUITE.corpus)
    write_queries(folder / "queries.jsonl", SUITE.queries)
    write_qrels(folder / "qrels.tsv", SUITE.qrels)
    arguments = ["--data", str(tmp_path), "--sets", "wombats", "none"]
    monkeypatch.setattr(sys, "argv", [str(BENCHMARK), *arguments])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(BENCHMARK), run_name="__main__")
    assert stop.value.code == 0
    output = capsys.readouterr().out
    assert "no such folder in" in output
    for name in ("vector", "lexical", "hybrid", "hybrid+rerank"):
        assert re.search(rf"^\| {re.escape(name)} \| .*0\.\d{{4}}", output, re.M)
