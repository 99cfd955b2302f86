"""What a comparison holds and writes: the files say the same as the figures."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import ir_measures
import pytest

import secondpass_evaluation as evaluation
from secondpass import Candidate, Reranker
from secondpass_evaluation import (
    Comparison,
    FormatError,
    HybridRetriever,
    evaluate,
    load_suite,
    make_suite,
    read_qrels,
    read_run,
    write_corpus,
    write_qrels,
    write_queries,
)
from secondpass_evaluation.report import svg

MEASURES = ("nDCG@10", "AP(rel=2)", "RR@3", "P@1")
TEXTS = ("an owl", "an owl and a cat", "owl owl cat", "the sea, the owl, the cat", "nothing")


def suite(prefix: str = "d", text: str = "owl cat"):
    corpus = [Candidate(each, f"{prefix}{at}") for at, each in enumerate(TEXTS)]
    qrels = {
        "q1": {f"{prefix}3": 2, f"{prefix}0": 1},
        "q2": {f"{prefix}1": 1, f"{prefix}2": 0},
        "q3": {f"{prefix}4": 1},
    }
    queries = {"q1": text, "q2": "cat", "q3": "wombat"}
    return make_suite("animals", queries, qrels, corpus=corpus)


class Longest:
    model_name = "longest"

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        return [float(len(text)) for text in documents]


class Broken(Longest):
    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        raise RuntimeError("secret")


def compare(rerankers, given, **settings) -> Comparison:
    """Without vectors, so that rerankers stand behind ``lexical``."""
    retriever = None if given.corpus is None else HybridRetriever(given.corpus)
    return evaluation.compare(rerankers, given, retriever=retriever, **settings)


def compared(given=None, **settings) -> Comparison:
    rerankers = {"longest": Reranker(Longest()), "broken": Reranker(Broken()), **settings}
    return compare(
        rerankers, given or suite(), measures=MEASURES, shuffles=2, not_run={"absent": "no key"}
    )


def test_files_give_the_same_figures(tmp_path: Path) -> None:
    found = compared()
    written = found.write(tmp_path / "out" / "deep")
    names = [str(Path(path).relative_to(tmp_path / "out" / "deep")) for path in written]
    assert names == [
        "results.json",
        "per_query.csv",
        "report.md",
        "report.html",
        "qrels.trec",
        "runs/lexical.trec",
        "runs/lexical+longest.trec",
    ]
    parsed = [ir_measures.parse_measure(name) for name in MEASURES]
    qrels = list(ir_measures.read_trec_qrels(written[4]))
    for result, path in zip(found.ran, written[5:], strict=True):
        theirs = ir_measures.calc(parsed, qrels, list(ir_measures.read_trec_run(path)))
        for measure, value in theirs.aggregated.items():
            assert result.evaluation.mean[str(measure)] == pytest.approx(value, abs=1e-12)
        for metric in theirs.per_query:
            ours = result.evaluation.per_query[str(metric.measure)][metric.query_id]
            assert ours == metric.value
        assert evaluate(read_run(path), read_qrels(written[4]), MEASURES) == result.evaluation
        assert Path(path).read_text().split()[5] == result.name
    assert json.loads(Path(written[0]).read_text()) == json.loads(json.dumps(found.to_dict()))
    assert Path(written[1]).read_text() == found._per_query_csv()
    assert Path(written[2]).read_text() == found.to_markdown()


def test_suite_from_files_or_python(tmp_path: Path) -> None:
    given = suite()
    write_corpus(tmp_path / "corpus.jsonl", given.corpus)
    write_queries(tmp_path / "queries.jsonl", given.queries)
    write_qrels(tmp_path / "qrels.tsv", given.qrels)
    one, other = (compared(each).to_dict() for each in (given, load_suite(tmp_path)))
    for each in (one, other):
        del each["suite"], each["settings"]["date"]
        for system in each["systems"]:
            system.pop("seconds", None)
    assert one == other


def test_json() -> None:
    told = json.loads(json.dumps(compared().to_dict(), allow_nan=False))
    assert (told["suite"], told["queries"], told["baseline"]) == ("animals", 3, "lexical")
    systems = {system["name"]: system for system in told["systems"]}
    assert systems["lexical+absent"]["reason"] == "no key"
    assert systems["vector"]["status"] == "not_run"
    longest = systems["lexical+longest"]
    assert longest["seconds"].keys() == {"p50", "p95", "p99", "max", "total", "end_to_end"}
    assert longest["usage"] == {
        "calls": 2,
        "pairs": 7,
        "input_tokens": None,
        "output_tokens": None,
        "cost": None,
        "cached": 0,
        "skipped": 0,
        "saved_pairs": 0,
        "saved_seconds": None,
        "units": None,
        "units_per_query": None,
    }
    assert longest["per_query"].keys() == set(MEASURES)
    assert longest["differences"]["nDCG@10"].keys() >= {"p", "corrected_p", "low", "high", "wins"}
    assert longest["stability"]["shuffles"] == 2
    assert systems["lexical+broken"]["issues"] == {"scorer_raised": 2}


def test_csv() -> None:
    found = compared()
    rows = list(csv.DictReader(io.StringIO(found._per_query_csv())))
    assert len(rows) == 3 * len(found.ran)
    for row in rows:
        values = found[row["system"]].evaluation.per_query
        assert {name: float(row[name]) for name in MEASURES} == {
            name: values[name][row["query"]] for name in MEASURES
        }
        assert float(row["seconds"]) == found[row["system"]].cost.seconds[row["query"]]


def test_one_file_per_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svg, "available", lambda: False)
    names = ["a b", "a/b", "A b", "../../up", "naïve ☃ \ud800"]
    files = ["a_b", "a_b-2", "A_b-3", ".._.._up", "na_ve____"]
    found = compare({name: Reranker(Longest()) for name in names}, suite())
    written = found.write(tmp_path)
    assert [Path(path) for path in written[6:]] == [
        tmp_path / "runs" / f"lexical+{name}.trec" for name in files
    ]
    assert all(read_run(path)["q1"] for path in written[6:])


def test_unfit_ids_fail_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svg, "available", lambda: False)
    found = compared(suite(prefix="a document ", text="owl cat \ud800"))
    assert found["lexical+longest"].gains
    with pytest.raises(FormatError, match="white space"):
        found.write(tmp_path)
    assert "owl cat \ufffd" in (tmp_path / "report.md").read_text()
    assert (tmp_path / "report.html").exists()


def test_markdown_tables() -> None:
    lines = compared().to_markdown().splitlines()
    assert lines[0] == "# animals: 3 queries"
    assert [line for line in lines if line.startswith("## ")] == [
        "## Overview",
        "## Quality",
        "## Not measured",
        "## Against lexical",
        "## Cost",
        "## Issues",
        "## Sensitivity to input order",
        "## Not run",
        "## Queries that lexical+longest makes better",
    ]
    assert "| lexical+broken | 1 ok, 2 unchanged | 2 scorer\\_raised |" in lines
    assert "| lexical+absent | no key |" in lines
    quality = next(line for line in lines if line.startswith("| lexical+longest | "))
    mean = compared()["lexical+longest"].evaluation.mean["nDCG@10"]
    assert f"**{mean:.4f}**" in quality


def test_nothing_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compare({"x": Reranker(Longest())}, suite(), behind="vector", first_stages=["vector"])
    assert found.ran == ()
    assert (
        found.to_markdown().splitlines()[2].startswith("**No verdict.** No reranker could be run")
    )
    assert found.to_markdown().splitlines()[4] == "## Not run"
    assert found.to_dict()["baseline"] is None


def test_texts_and_names_stay_text() -> None:
    nasty = "![x](http://x.y/z) <script> | **bold** `code` &lt; [a](b) ~~no~~"
    found = compared(suite(text=f"{nasty} owl cat"), **{nasty: Reranker(Longest())})
    told = found.to_markdown()
    for markup in ("![", "](", "<script", "| **bold", "**bold", "`code", "&lt;", "~~no"):
        assert not re.search(r"(?<!\\)" + re.escape(markup), told)
    table = [line for line in told.splitlines() if line.startswith("| lexical+")]
    plain = [line.replace("\\|", "") for line in table]
    assert {line.count("|") for line in plain if "bold" in line} == {
        line.count("|") for line in plain if "longest" in line
    }


def test_by_name() -> None:
    found = compared()
    assert found["lexical+longest"] is found.results[3]
    with pytest.raises(KeyError, match="other"):
        found["other"]
    assert replace(found, results=()).ran == ()


def test_in_notebooks() -> None:
    assert "lexical+longest" in compared()._repr_html_()
    assert "owl" not in repr(compared())  # no texts in logs
