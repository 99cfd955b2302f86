"""What a comparison holds and writes: the files say the same as the figures."""

import csv
import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import ir_measures
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from judged_folders import mark
from reports import EDGES, make
from secondpass import Candidate, Reranker
from secondpass_evaluation import (
    Comparison,
    FormatError,
    HybridRetriever,
    compare,
    evaluate,
    make_suite,
    read_qrels,
    read_run,
)
from secondpass_evaluation.comparison import _file_name
from secondpass_evaluation.report import svg
from topic_suites import SUITE, ByGrade, failing

MEASURES = ("nDCG@10", "AP(rel=2)", "RR@3", "P@1")


@pytest.fixture(autouse=True)
def _without_the_embedded_model(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)


def compared(suite=SUITE) -> Comparison:
    """Without vectors, so that rerankers stand behind ``lexical``."""
    broken = ByGrade(score_pairs=failing(RuntimeError("secret")))
    return compare(
        {"grade": Reranker(ByGrade()), "broken": Reranker(broken), "absent": "embedded"},
        suite,
        retriever=HybridRetriever(suite.corpus),
        measures=MEASURES,
        shuffles=2,
    )


def test_files_give_the_same_figures(tmp_path: Path) -> None:
    found = compared()
    written = found.write(tmp_path / "out" / "deep")
    names = [str(Path(path).relative_to(tmp_path / "out" / "deep")) for path in written]
    assert names == [
        "results.json", "per_query.csv", "report.md", "report.html", "qrels.trec",
        "runs/lexical.trec", "runs/lexical+grade.trec",
    ]  # fmt: skip
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


def test_json() -> None:
    told = json.loads(json.dumps(compared().to_dict(), allow_nan=False))
    assert (told["suite"], told["queries"], told["baseline"]) == ("wombats", 6, "lexical")
    systems = {system["name"]: system for system in told["systems"]}
    assert ".[embedded]" in systems["lexical+absent"]["reason"]
    assert systems["vector"]["status"] == "not_run"
    graded = systems["lexical+grade"]
    assert graded["seconds"].keys() == {"p50", "p95", "p99", "max", "total", "end_to_end"}
    not_known = ["input_tokens", "output_tokens", "cost", "units", "units_per_query"]
    assert graded["usage"] == {
        **dict.fromkeys(not_known), "calls": 0, "pairs": 24,
        "cached": 0, "skipped": 0, "saved_pairs": 0, "known": 0, "encoded": 0,
    }  # fmt: skip
    assert graded["per_query"].keys() == set(MEASURES)
    assert graded["differences"]["nDCG@10"].keys() >= {"p", "corrected_p", "low", "high", "wins"}
    assert graded["stability"]["shuffles"] == 2
    assert systems["lexical+broken"]["issues"] == {"scorer_raised": 6}


def test_unfit_ids_fail_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svg, "available", lambda: False)
    corpus = [Candidate(f"{grade} owls", f"a document {grade}") for grade in range(3)]
    suite = make_suite("s", {"q": "owls \ud800"}, {"q": {"a document 2": 1}}, corpus=corpus)
    found = compared(suite)
    assert found["lexical+grade"].gains
    with pytest.raises(FormatError, match="white space"):
        found.write(tmp_path)
    assert "owls \ufffd" in (tmp_path / "report.md").read_text()
    assert (tmp_path / "report.html").exists()


@given(st.lists(st.text(min_size=1), max_size=8))
@example(["x" * 300, "x" * 301, "\N{SNOWMAN}" * 300])
def test_file_names_are_plain_short_and_unique_whatever_the_case(names):
    taken = set()
    files = [_file_name(name, taken) for name in names]
    assert all(re.fullmatch(r"[A-Za-z0-9._+-]{1,123}", name) for name in files)
    assert len({name.lower() for name in files}) == len(files)


@pytest.mark.parametrize(
    ("names", "files"),
    [
        (["lexical+a b", "lexical+a/b", "lexical+A b"],
         ["lexical+a_b", "lexical+a_b-2", "lexical+A_b-3"]),
        (["../up"], [".._up"]),
        (["na\u00efve \ud800"], ["na_ve__"]),
        (["x" * 120], ["x" * 120]),
        (["x" * 121], ["x" * 107 + "-79072a47bfaa"]),
    ],
    ids=["alike", "path", "characters", "long", "too long"],
)  # fmt: skip
def test_file_names(names, files):
    taken = set()
    assert [_file_name(name, taken) for name in names] == files


def test_a_line_of_csv_for_each_query_and_system():
    found = make(count=2)
    header, *lines = found._per_query_csv().splitlines()
    assert header == '"query","system","nDCG@10","RR","seconds"'
    values = found.ran[1].evaluation.per_query
    measures = f"{values['nDCG@10']['q0']},{values['RR']['q0']}"
    assert lines[1] == f'"q0","lexical+rerank",{measures},0.04'
    assert [line.split(",")[:2] for line in lines] == [
        [f'"{query}"', f'"{result.name}"'] for query in found.queries for result in found.ran
    ]
    assert EDGES["no time"]._per_query_csv().splitlines()[2].endswith(',""')


FORMULAS = ["=1+1", "+a", "-a", "@SUM(A1)", "\t=1", "\n=1", " =1", "\uff1d1", "-1+1", "+1.2.3"]
TEXTS = ["-5", "+1.5", "a=1", "a;=1", 'a,"b"', "1-2", "é", "'=1"]


@pytest.mark.parametrize("name", [*FORMULAS, *TEXTS])
def test_no_name_is_a_formula_of_a_spreadsheet(name):
    """Nor a part of it, where a spreadsheet separates cells by semicolons."""
    found = make(count=1)
    measured = evaluate({name: {"d": 1.0}}, {name: {"d": 1}}, found.measures)
    results = [replace(result, name=name, evaluation=measured) for result in found.results]
    text = replace(found, results=results, queries={name: "q"})._per_query_csv()
    (row, _) = csv.DictReader(io.StringIO(text, newline=""))
    assert row["query"] == row["system"] == (f"'{name}" if name in FORMULAS else name)
    quoted = f'"{row["query"].replace(chr(34), chr(34) * 2)}",'
    assert text.count(quoted) == 4


def test_a_models_judgements_are_marked():
    record = make(judged_by=mark(people={"q0": {"d1": 1}})).to_dict()
    assert record["judged_by"]["people"] == 1
    assert "order" not in record["judged_by"]
    assert record["corrected"] == []


def test_the_verdict_is_that_of_the_report():
    comparison = compared()
    report = comparison.to_markdown()
    assert comparison.verdict
    answer = comparison.verdict.partition(". ")[0]
    assert answer.rstrip(".") in report


def test_an_unknown_system_or_measure_is_named_with_the_known_ones():
    comparison = compared()
    name = comparison.results[0].name
    with pytest.raises(KeyError, match=f"no system is named 'zzz'; known are: .*{name}"):
        comparison["zzz"]
    with pytest.raises(KeyError, match=f"did you mean '{name}'"):
        comparison[f"{name}x"]
    with pytest.raises(KeyError, match=r"no measure is named 'zzz'; known are: "):
        comparison.means("zzz")
