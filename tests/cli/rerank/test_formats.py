"""Requests and rankings as JSON lines and tables."""

import pytest

from command_requests import FRUIT, LEXICAL, json_lines, requests
from secondpass import Reranker


def test_candidates_of_one_query_come_ranked_with_all_their_data(secondpass):
    told = secondpass(*LEXICAL, "--query", "fruit potassium", stdin=json_lines(FRUIT))
    (ranked,) = told.lines()
    assert [one["id"] for one in ranked["ranking"]] == ["banana", "pear", "moon"]
    assert [one["rank"] for one in ranked["ranking"]] == [1, 2, 3]
    assert ranked["ranking"][1] | {"rerank_score": 0, "final_score": 0} == {
        "rank": 2,
        "id": "pear",
        "position": 1,
        "status": "scored",
        "score": 2,
        "rerank_score": 0,
        "final_score": 0,
        "text": "A pear is a fruit.",
        "metadata": {"page": 7},
    }
    assert ranked["report"]["status"] == "ok"
    assert "seconds" not in ranked["report"]
    assert told.code == 0
    assert "1 query in" in told.err
    assert "1 ok, 0 partial, 0 degraded, 0 unchanged" in told.err


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_many_requests_match_the_library_in_order(secondpass, write, batch):
    given = requests(7)
    file = write("in.jsonl", given)
    told = secondpass(*LEXICAL, file, "--batch", batch).lines()
    assert [one["query_id"] for one in told] == [one["query_id"] for one in given]
    reranker = Reranker.from_preset("lexical")
    for one, request in zip(told, given, strict=True):
        alone = reranker.rerank(request["query"], request["candidates"])
        assert [item["id"] for item in one["ranking"]] == [item.id for item in alone]
        assert [item["final_score"] for item in one["ranking"]] == [
            item.final_score for item in alone
        ]


@pytest.mark.parametrize(("options", "missing"), [((), "query"), (("-q", "x"), "candidate")])
def test_an_empty_file_is_no_success(secondpass, write, options, missing):
    told = secondpass(*LEXICAL, write("empty.jsonl", ""), *options)
    assert (told.code, f"there is no {missing} in the input" in told.flat) == (1, True)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--top-k", "1"], ["banana"]),
        (["--depth", "2"], ["pear", "moon", "banana"]),
        (["--set", "tail=drop", "--depth", "2"], ["pear", "moon"]),
        (["--set", "method.k1=0", "--set", "top_k=2"], ["banana", "pear"]),
    ],
)
def test_options_reach_the_ranking(secondpass, options, expected):
    told = secondpass(*LEXICAL, "-q", "fruit potassium", *options, stdin=json_lines(FRUIT))
    assert [one["id"] for one in told.lines()[0]["ranking"]] == expected


def test_a_context_is_handed_on(secondpass, write, tmp_path):
    context = write("context.yaml", "nodes: []\n")
    told = secondpass(*LEXICAL, "-q", "x", "--context", context, stdin=json_lines(FRUIT))
    assert told.code == 0
    broken = write("broken.yaml", "a: [1\nb: 2")
    told = secondpass(*LEXICAL, "-q", "x", "--context", broken, stdin=json_lines(FRUIT))
    assert (told.code, "not JSON; as YAML: not YAML at line 2" in told.flat) == (1, True)


def test_table_escapes_terminal_control_text(secondpass):
    stdin = json_lines([{"id": "a\x1b[2J", "text": "one\n\x1b]0;title\x07 two \u202e[bold]"}])
    told = secondpass(*LEXICAL, "-q", "\x1b[31mred", "--format", "table", stdin=stdin)
    assert told.code == 0
    assert not {"\x1b", "\x07", "\u202e"} & set(told.out)
    assert "\\x1b[31mred" in told.out
    assert "[bold]" in told.out


def test_candidates_are_explained(secondpass):
    call = [*LEXICAL, "-q", "fruit potassium", "--explain", "banana"]
    (told,) = secondpass(*call, "-f", "jsonl", stdin=json_lines(FRUIT)).lines()
    (explanation,) = told["explanations"]
    ranks = {item["id"]: item["rank"] for item in told["ranking"]}
    assert (explanation["id"], explanation["rank"]) == ("banana", ranks["banana"])
    told = secondpass(*call, "-f", "table", "--top-k", "1", stdin=json_lines(FRUIT))
    assert "'banana': rank 1, of" in told.out
    assert "by lexical" in told.out
