"""The benchmark of drift on an invented collection: it runs, and finds large changes."""

import json
import random
import runpy
import sys
from pathlib import Path

import pytest

from remembered_model import remember

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
QUERIES = 40
WORDS = "owl cat sea moon tree night stone river bird snow train bread".split()


def json_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def data(tmp_path):
    generator = random.Random(1)
    folder = tmp_path / "invented"
    folder.mkdir()
    passages = [" ".join(generator.choices(WORDS, k=12)) for _ in range(15)]
    json_lines(
        folder / "corpus.jsonl", [{"id": str(at), "text": one} for at, one in enumerate(passages)]
    )
    queries = [" ".join(generator.sample(WORDS, 2)) for _ in range(QUERIES)]
    json_lines(
        folder / "queries.jsonl", [{"id": f"q{at}", "text": one} for at, one in enumerate(queries)]
    )
    rows = [f"q{at}\t{at % 15}\t1\n" for at in range(QUERIES)]
    (folder / "qrels.tsv").write_text("query-id\tdoc-id\trelevance\n" + "".join(rows))
    return tmp_path


@pytest.fixture
def run(monkeypatch, capsys):
    remember(monkeypatch)
    monkeypatch.syspath_prepend(str(FOLDER))

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["drift.py", *map(str, arguments)])
        runpy.run_path(str(FOLDER / "drift.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.mark.long
def test_an_invented_collection(data, run):
    options = ["--splits", 1, "--comparisons", 2, "--rounds", 1, "--cache", data / "journal"]
    printed = run("--data", data, "--sets", "invented", *options)
    rows = dict(line.split(" | ")[:2] for line in printed.splitlines() if line.startswith("| "))
    assert rows["| logits become probabilities (sigmoid)"] == "100%"
    assert rows["| first stage by vectors, not BM25"] == "100%"
    assert "of 12 changes are found in at least 95% of 1 splits" in printed
    assert "A monitor adds" in printed
    assert "A line with 40 rankings has " in printed
