import re
import subprocess
import sys
from pathlib import Path

from secondpass.evaluation import write_corpus, write_qrels, write_queries
from topic_suites import SUITE

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "four_modes.py"


def test_prints_all_modes(tmp_path: Path) -> None:
    folder = tmp_path / "wombats"
    folder.mkdir()
    write_corpus(folder / "corpus.jsonl", SUITE.corpus)
    write_queries(folder / "queries.jsonl", SUITE.queries)
    write_qrels(folder / "qrels.tsv", SUITE.qrels)
    command = [sys.executable, str(BENCHMARK), "--data", str(tmp_path), "--sets", "wombats", "none"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "no such folder in" in done.stdout
    for name in ("vector", "lexical", "hybrid", "hybrid+rerank"):
        assert re.search(rf"^\| {re.escape(name)} \| .*0\.\d{{4}}", done.stdout, re.M)
