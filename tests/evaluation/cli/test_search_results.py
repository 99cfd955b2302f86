"""Results of a search, as records and as a table."""

import pytest

from secondpass import Candidate, Reranker
from secondpass_evaluation.cli.query import print_table, reranked_rows, retrieved_rows

OWLS = [
    Candidate("Ships cross the sea.", "ship", 0.9, metadata={"title": "Ships"}),
    Candidate("The owl hunts.", "owl", 0.8),
]


def test_retrieved_candidates_are_numbered():
    assert retrieved_rows(OWLS) == [
        {"final_rank": 1, "id": "ship", "score": 0.9, "text": "Ships cross the sea.",
         "metadata": {"title": "Ships"}},
        {"final_rank": 2, "id": "owl", "score": 0.8, "text": "The owl hunts.", "metadata": {}},
    ]  # fmt: skip


def test_reranked_items_have_their_retrieval_rank():
    first, second = reranked_rows(Reranker("lexical").rerank("owl", OWLS))
    assert (first["id"], first["final_rank"], first["retrieval_rank"]) == ("owl", 1, 2)
    assert (second["id"], second["final_rank"], second["retrieval_rank"]) == ("ship", 2, 1)
    assert first["rerank_score"] == first["final_score"] > second["final_score"]
    assert first["status"] == "scored"
    assert not {"span", "spread"} & first.keys()


def shown(capsys, *rows):
    print_table(rows)
    return capsys.readouterr().out


def row(**values):
    return {"final_rank": 1, "id": "a", "score": None, "text": "x", "metadata": {}, **values}


def test_no_rows_are_a_sentence(capsys):
    assert shown(capsys) == "No results.\n"


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"score": 0.25}, "0.2500"),
        ({"metadata": {"title": "T\x1b[1m"}}, "a  T\\x1b[1m"),
        ({"text": "one\ntwo"}, "one two"),
        ({"text": "zero one", "span": [5, 8]}, "…one"),
        ({"id": None}, "None"),
    ],
    ids=["score", "title", "lines", "span", "no id"],
)
def test_a_passage_is_shown(capsys, values, part):
    assert part in shown(capsys, row(**values))


def test_a_long_text_is_cut_between_words(capsys):
    out = shown(capsys, row(text="word " * 60))
    assert out.count("word") == 48
    assert out.rstrip().endswith("word …")
