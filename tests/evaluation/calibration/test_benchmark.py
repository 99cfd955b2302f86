"""benchmarks/calibration.py on a small collection."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from command_requests import json_lines

ROOT = Path(__file__).parents[3]


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


def test_tables(collection):
    script = ROOT / "benchmarks" / "calibration.py"
    options = ["--data", collection, "--sets", "words", "--splits", "5", "--methods", "lexical"]
    command = [sys.executable, script, *options, "--cache", collection / "cache"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| words")]
    assert len(rows) == 8
    assert all(" printed only |" in row for row in rows[:6])
    assert (collection / "cache" / "words.jsonl").is_file()
