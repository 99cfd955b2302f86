"""The benchmark of tuning runs, on a small collection."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from remembered_model import remember
from secondpass_evaluation import write_corpus, write_qrels, write_queries
from secondpass_evaluation.observations import Observations
from tuning_suites import LAST

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "tuning.py"


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "words"
    folder.mkdir()
    passages = {item.id: item for items in LAST.candidates.values() for item in items}
    write_corpus(folder / "corpus.jsonl", list(passages.values()))
    write_queries(folder / "queries.jsonl", LAST.queries)
    write_qrels(folder / "qrels.tsv", LAST.qrels)
    return tmp_path


def test_prints_a_row_for_each_number_of_queries(data, tmp_path, monkeypatch, capsys):
    remember(monkeypatch)
    monkeypatch.syspath_prepend(str(BENCHMARK.parent))
    arguments = ["--data", data, "--sets", "words", "--splits", "2", "--resamples", "19"]
    arguments += ["--sizes", "6", "--cache", tmp_path / "cache", "--always", "5"]
    monkeypatch.setattr(sys, "argv", [str(BENCHMARK), *map(str, arguments)])
    script = runpy.run_path(str(BENCHMARK))
    monkeypatch.setitem(script["sizes"].__globals__, "FEWEST_OTHERS", 6)
    script["main"]()
    output = capsys.readouterr().out
    assert re.search(r"^\| words \| 6 \| \d+% of 2 \| ", output, re.M)
    always = re.findall(r"^\| words \| 6 \| (\S+) \| [+-].* \| (\d+)% \| \d+% \|$", output, re.M)
    assert [name for name, _ in always] == ["embedded", "embedded+blend", "lexical"]
    assert sum(int(share) for _, share in always) >= 100

    def none(*_arguments):
        raise AssertionError("ranks again what is in the cache")

    monkeypatch.setattr(Observations, "rankings", none)
    script["main"]()
    assert capsys.readouterr().out == output
