"""The benchmark of judging, on a small collection."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from remembered_model import remember

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def rows(tmp_path, monkeypatch, capsys):
    """Rows of the benchmark by measure and judge."""
    remember(monkeypatch)
    place = tmp_path / "tiny"
    place.mkdir()
    documents = [{"_id": f"d{n}", "text": f"garden {n} pears {'x ' * (n % 5)}"} for n in range(30)]
    queries = [{"_id": f"q{n}", "text": f"garden pears {n}"} for n in range(15)]
    for name, records in (("corpus", documents), ("queries", queries)):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (place / f"{name}.jsonl").write_text(lines)
    judged = [f"q{q} 0 d{d} {(q * d + d) % 4}\n" for q in range(15) for d in range(30)]
    (place / "qrels.tsv").write_text("".join(judged))
    arguments = ["--data", tmp_path, "--sets", "tiny", "--simulations", 20, "--queries", 60]
    monkeypatch.setattr(sys, "argv", ["judging.py", *map(str, arguments), "--json"])
    monkeypatch.syspath_prepend(str(FOLDER))
    runpy.run_path(str(FOLDER / "judging.py"), run_name="__main__")
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {(row["measure"], row["judge"].partition(":")[0]): row for row in found}


def test_corrected_intervals_cover_and_are_never_wider(rows):
    assert len(rows) == 32
    assert all(row["never_wider"] for row in rows.values())
    assert all(row["width"] <= row["width_person"] for row in rows.values())
    assert rows["nDCG@10", "perfect"]["width"] < 0.7 * rows["nDCG@10", "perfect"]["width_person"]
    assert sum(row["covered"] for row in rows.values()) / 32 > 0.9
    assert rows["nDCG@10", "perfect"]["bias"] == pytest.approx(0, abs=0.02)
