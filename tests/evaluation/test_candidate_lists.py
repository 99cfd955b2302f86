"""Candidates of queries, from JSON lines and from runs, and what is wrong with them."""

import json
import re
from types import SimpleNamespace

import pytest

from secondpass import Candidate, InputError
from secondpass.formats.errors import FormatError
from secondpass_evaluation import write_run
from secondpass_evaluation.candidate_lists import candidates_of_run, checked_id, read_candidates

CORPUS = [
    Candidate("the owl", "a", metadata={"year": 3}),
    Candidate("a cat", "b"),
    Candidate("the sea", "c"),
]


def test_candidates_have_their_own_text_or_that_of_the_corpus(tmp_path):
    items = [
        {"id": "c", "score": 2},
        {"_id": "b", "text": None},
        {"id": "z", "title": "Far", "text": "from elsewhere", "score": -1.5},
        {"id": "a", "title": "Owls", "text": "hunt", "originalScore": 0.25},
        {"id": 7, "text": "seven"},
    ]
    path = tmp_path / "candidates.jsonl"
    rows = [{"query_id": "q1", "candidates": items}, {"query_id": 2, "candidates": []}]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert read_candidates(path, CORPUS) == {
        "q1": [
            Candidate("the sea", "c", 2),
            Candidate("a cat", "b"),
            Candidate("Far\nfrom elsewhere", "z", -1.5),
            Candidate("Owls\nhunt", "a", 0.25, {"year": 3}),
            Candidate("seven", "7"),
        ],
        "2": [],
    }


@pytest.mark.parametrize("corpus", [CORPUS, None])
@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"query_id": true}', "the 'query_id' must be a string"),
        ('{"query_id": "p"}', "needs 'candidates': a list"),
        ('{"query_id": "p", "candidates": ["a"]}', "must be an object"),
        ('{"query_id": "p", "candidates": [{}]}', "the id of a candidate"),
        ('{"query_id": "p", "candidates": [{"id": "z"}]}', "'z' has no text"),
        (
            '{"query_id": "p", "candidates": [{"id": "a", "score": "1"}]}',
            "the score of 'a' must be a number",
        ),
        ('{"query_id": "r", "candidates": []}', "'r' is a duplicate"),
    ],
)
def test_malformed_second_line(tmp_path, corpus, line, problem):
    path = tmp_path / "candidates.jsonl"
    path.write_text('{"query_id": "r", "candidates": []}\n' + line)
    with pytest.raises(FormatError, match=re.escape(problem)) as caught:
        read_candidates(path, corpus)
    assert (caught.value.path, caught.value.line) == (str(path), 2)


def test_documents_of_a_run_have_its_order_and_scores(tmp_path):
    write_run(tmp_path / "run", {"q1": {"b": 2.0, "a": 1.0}, "q2": {"c": 0.5}})
    found = candidates_of_run(tmp_path / "run", CORPUS)
    assert found == {
        "q1": [Candidate("a cat", "b", 2.0), Candidate("the owl", "a", 1.0, {"year": 3})],
        "q2": [Candidate("the sea", "c", 0.5)],
    }
    with pytest.raises(FormatError, match="'q2' has document 'c', which is not in"):
        candidates_of_run(tmp_path / "run", CORPUS[:2])
    with pytest.raises(InputError, match="a run has no texts; it needs a corpus"):
        candidates_of_run(tmp_path / "run", None)


@pytest.mark.parametrize(("value", "id_"), [("a", "a"), (7, "7"), (0, "0")])
def test_ids(value, id_):
    assert checked_id(SimpleNamespace(error=ValueError), value, "the id") == id_


@pytest.mark.parametrize("value", ["", None, True, 1.5, ["a"]])
def test_what_is_no_id(value):
    with pytest.raises(ValueError, match="the id must be a string or an integer, not"):
        checked_id(SimpleNamespace(error=ValueError), value, "the id")
