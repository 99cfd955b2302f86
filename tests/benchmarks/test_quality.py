import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "quality.py"

Run: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the script in this process: exit code, standard output and standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        return stop.value.code, *capsys.readouterr()

    return run


def json_lines(path: Path, records: list[dict]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    passages = {"1": "the owl hunts", "2": "a long tale of the owl and of the cat", "3": "the sea"}
    for name in ("words", "ready"):
        folder = tmp_path / name
        folder.mkdir()
        json_lines(
            folder / "corpus.jsonl",
            [{"id": key, "title": "", "text": text} for key, text in passages.items()],
        )
        json_lines(folder / "queries.jsonl", [{"id": "q", "text": "owl"}, {"id": "-", "text": ""}])
        (folder / "qrels.tsv").write_text("query-id\tdoc-id\trelevance\nq\t1\t1\n")
    found = [{"id": key, "text": passages[key], "score": 1.0} for key in ("3", "2", "1")]
    for name in ("candidates.jsonl", "candidates-contriever.jsonl"):
        json_lines(tmp_path / "ready" / name, [{"query_id": "q", "candidates": found}])
    return tmp_path


def test_a_line_per_first_stage(data: Path, run: Run) -> None:
    config = data / "mine.yaml"
    config.write_text("method: {type: lexical}\n")
    code, out, err = run(
        "--data", data, "--sets", "ready", "words", "--preset", "lexical", "--config", config
    )
    assert (code, err) == (0, "")
    rows = [line.split(" | ")[:7] for line in out.splitlines() if line.startswith("| ")][2:]
    assert rows[0] == [
        "| ready", "BM25", "0.5000", "lexical", "1.0000", "+0.5000", "1 / 0 / 0",
    ]  # fmt: skip
    assert [row[:2] for row in rows] == [
        *[["| ready", "BM25"]] * 2,
        *[["| ready", "Contriever"]] * 2,
        *[["| words", "BM25"]] * 2,
    ]
    assert rows[4][2:] == ["1.0000", "lexical", "1.0000", "+0.0000", "0 / 1 / 0"]
