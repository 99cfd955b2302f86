"""A comparison as files."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judged_folders import mark
from reports import EDGES, make, without
from secondpass_evaluation import read_qrels
from secondpass_evaluation.comparison import _file_name


@given(st.lists(st.text(min_size=1), max_size=8))
def test_file_names_are_plain_and_unique_whatever_the_case(names):
    taken = set()
    files = [_file_name(name, taken) for name in names]
    assert all(re.fullmatch(r"[A-Za-z0-9._+-]+", name) for name in files)
    assert len({name.lower() for name in files}) == len(files)


@pytest.mark.parametrize(
    ("names", "files"),
    [
        (["lexical+a b", "lexical+a/b", "lexical+A b"],
         ["lexical+a_b", "lexical+a_b-2", "lexical+A_b-3"]),
        (["../up"], [".._up"]),
        (["na\u00efve \ud800"], ["na_ve__"]),
        (["x" * 120], ["x" * 120]),
    ],
    ids=["alike", "path", "characters", "long"],
)  # fmt: skip
def test_file_names(names, files):
    taken = set()
    assert [_file_name(name, taken) for name in names] == files


def test_long_names_end_in_a_hash():
    taken = set()
    names = ["x" * 300, "x" * 301, "\N{SNOWMAN}" * 300]
    files = [_file_name(name, taken) for name in names]
    assert [len(name) for name in files] == [120] * 3
    assert len(taken) == 3
    assert files[0][:107] == files[1][:107]


def test_a_line_of_csv_for_each_query_and_system():
    found = make(count=2)
    header, *lines = found._per_query_csv().splitlines()
    assert header == "query,system,nDCG@10,RR,seconds"
    values = found.ran[1].evaluation.per_query
    assert lines[1] == f"q0,lexical+rerank,{values['nDCG@10']['q0']},{values['RR']['q0']},0.04"
    assert [line.split(",")[:2] for line in lines] == [
        [query, result.name] for query in found.queries for result in found.ran
    ]
    assert EDGES["no time"]._per_query_csv().splitlines()[2].endswith(",")


@pytest.mark.parametrize("comparison", EDGES.values(), ids=EDGES)
def test_plain_values(comparison):
    record = json.loads(json.dumps(comparison.to_dict()))
    assert record["queries"] == len(comparison.queries)
    assert [system["name"] for system in record["systems"]] == [
        result.name for result in comparison.results
    ]
    assert "judged_by" not in record


def test_a_models_judgements_are_marked():
    record = make(judged_by=mark(people={"q0": {"d1": 1}})).to_dict()
    assert record["judged_by"]["people"] == 1
    assert "order" not in record["judged_by"]
    assert record["corrected"] == []


def test_written_files(tmp_path):
    found = make(judged_by=mark())
    with without("matplotlib"):
        paths = found.write(tmp_path / "new")
    names = [path.removeprefix(f"{tmp_path}/new/") for path in paths]
    assert names == [
        "results.json", "per_query.csv", "report.md", "report.html", "qrels.trec",
        "qrels.judged-by.json", "runs/lexical.trec", "runs/lexical+rerank.trec",
    ]  # fmt: skip
    assert read_qrels(tmp_path / "new" / "qrels.trec") == found.qrels
    with without("matplotlib"):
        make().write(tmp_path / "new")
    assert not (tmp_path / "new" / "qrels.judged-by.json").exists()
