"""benchmarks/calibration.py on a small collection."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from command_requests import json_lines

ROOT = Path(__file__).parents[2]


@pytest.fixture
def collection(tmp_path):
    generator = np.random.default_rng(0)
    folder = tmp_path / "words"
    folder.mkdir()
    names = [f"w{number}" for number in range(24)]
    passages = [
        {"_id": f"{name}-{place}", "title": "", "text": f"{name} " * (3 - place) + filler}
        for name in names
        for place in range(3)
        for filler in [" ".join(generator.choice(names, 2))]
    ]
    (folder / "corpus.jsonl").write_bytes(json_lines(passages))
    (folder / "queries.jsonl").write_bytes(json_lines([{"_id": n, "text": n} for n in names]))
    lines = ["query-id\tcorpus-id\tscore\n", *(f"{name}\t{name}-0\t1\n" for name in names)]
    (folder / "qrels.tsv").write_text("".join(lines))
    return tmp_path


def test_tables(collection, monkeypatch, capsys):
    script = ROOT / "benchmarks" / "calibration.py"
    monkeypatch.syspath_prepend(str(script.parent))
    options = ["--data", collection, "--sets", "words", "--splits", "5", "--methods", "lexical"]
    command = [script, *options, "--cache", collection / "cache"]
    monkeypatch.setattr(sys, "argv", [*map(str, command)])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(script), run_name="__main__")
    assert stop.value.code == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| words")]
    assert len(rows) == 10
    assert all(" no target |" in row for row in rows[:6])
    assert (collection / "cache" / "words.jsonl").is_file()
