"""The scripts of benchmarks/ run on small invented collections, and print what their data say."""

import json
import random
import runpy
import sys
from pathlib import Path

import pytest

from remembered_model import remember
from secondpass_evaluation.tuning import tuning as choosing

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
WORDS = "owl cat sea moon tree night stone river bird snow train bread".split()


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a script in this process, successfully: the lines that it prints."""
    remember(monkeypatch)
    monkeypatch.syspath_prepend(str(FOLDER))

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        assert not runpy.run_path(str(FOLDER / name))["main"]()
        return capsys.readouterr().out.splitlines()

    return run


@pytest.fixture
def collection(tmp_path):
    """Writes a collection, and returns the options that name it."""

    def write(passages, queries, judged, **files):
        folder = tmp_path / "invented"
        folder.mkdir()
        files |= {
            name: [{"_id": key, "title": "", "text": text} for key, text in texts.items()]
            for name, texts in (("corpus", passages), ("queries", queries))
        }
        for name, records in files.items():
            lines = "".join(json.dumps(record) + "\n" for record in records)
            (folder / f"{name}.jsonl").write_text(lines)
        rows = "".join(f"{query}\t{key}\t{grade}\n" for query, key, grade in judged)
        (folder / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
        return ["--data", tmp_path, "--sets", "invented"]

    return write


def cells(lines, start="| "):
    return [[cell.strip() for cell in line.strip("|").split("|")]
            for line in lines if line.startswith(start)]  # fmt: skip


def test_quality_has_a_line_for_each_first_stage(collection, run, tmp_path):
    passages = {"1": "the owl hunts", "2": "a long tale of the owl and of the cat", "3": "the sea"}
    found = [{"id": key, "text": passages[key], "score": 1.0} for key in ("3", "2", "1")]
    ready = [{"query_id": "q", "candidates": found}]
    (tmp_path / "mine.yaml").write_text("method: {type: lexical}\n")
    options = collection(
        passages, {"q": "owl", "-": ""}, [("q", "1", 1)],
        candidates=ready, **{"candidates-contriever": ready},
    )  # fmt: skip
    rankers = ["--preset", "lexical", "--config", tmp_path / "mine.yaml"]
    _, _, *rows = cells(run("quality.py", *options, *rankers))
    assert [row[:2] for row in rows] == [["invented", "BM25"]] * 2 + [
        ["invented", "Contriever"]
    ] * 2
    assert rows[0][2:7] == ["0.5000", "lexical", "1.0000", "+0.5000", "1 / 0 / 0"]


@pytest.mark.parametrize("script", ["quality.py", "quality_plot.py", "packed_prompts.py"])
def test_without_collections_it_says_where_they_come_from(monkeypatch, capsys, tmp_path, script):
    monkeypatch.syspath_prepend(str(FOLDER))
    results = ["--results", tmp_path / "q.json"] if script == "quality_plot.py" else []
    monkeypatch.setattr(sys, "argv", [script, *map(str, ["--data", tmp_path, *results])])
    with pytest.raises(SystemExit) as ended:
        sys.exit(runpy.run_path(str(FOLDER / script))["main"]())
    assert not ended.value.code
    (line,) = capsys.readouterr().out.splitlines()
    start = f"No collections in {tmp_path}. A collection is a folder in BEIR's format"
    assert line.startswith(start)
    assert "docs/evidence.md says where to get each one" in line


def test_calibration_has_a_line_for_each_target(collection, run, tmp_path):
    draw = random.Random(0)
    names = [f"w{number}" for number in range(24)]
    passages = {
        f"{name}-{place}": f"{name} " * (3 - place) + " ".join(draw.choices(names, k=2))
        for name in names
        for place in range(3)
    }
    options = collection(
        passages, dict(zip(names, names, strict=True)), [(name, f"{name}-0", 1) for name in names]
    )
    with pytest.raises(SystemExit) as ended:
        run("calibration.py", *options, "--splits", 5, "--methods", "lexical", "--cache", tmp_path)
    assert ended.value.code == 0
    assert (tmp_path / "invented.jsonl").is_file()


def test_judging_corrects_and_is_never_wider(collection, run):
    options = collection(
        {f"d{n}": f"garden {n} pears {'x ' * (n % 5)}" for n in range(30)},
        {f"q{n}": f"garden pears {n}" for n in range(15)},
        [(f"q{q}", f"d{d}", (q * d + d) % 4) for q in range(15) for d in range(30)],
    )
    lines = run("judging.py", *options, "--simulations", 20, "--queries", 60, "--json")
    rows = {(row["measure"], row["judge"].partition(":")[0]): row for row in map(json.loads, lines)}
    assert len(rows) == 32
    assert all(row["never_wider"] and row["width"] <= row["width_person"] for row in rows.values())
    assert sum(row["covered"] for row in rows.values()) / 32 > 0.9
    perfect = rows["nDCG@10", "perfect"]
    assert perfect["width"] < 0.7 * perfect["width_person"]
    assert perfect["bias"] == pytest.approx(0, abs=0.02)


def test_simulated_scorers_without_a_gain(run, monkeypatch):
    for name in ("evaluate", "RESAMPLES"):  # which the script replaces
        monkeypatch.setattr(choosing, name, getattr(choosing, name))
    with pytest.raises(SystemExit) as ended:
        run("simulated.py", "--simulations", 1, "--resamples", 19, "--parts", "duplicates")
    assert ended.value.code == 0
