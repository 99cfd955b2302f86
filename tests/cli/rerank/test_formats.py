"""Requests and rankings as JSON lines and tables."""

import json

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


def test_candidates_as_strings_and_corpus_entries(secondpass):
    stdin = '\ufeff"a fruit"\n\n{"_id": 7, "text": "fruit fruit"}\r\n{"content": "x"}'.encode()
    (ranked,) = secondpass(*LEXICAL, "-q", "fruit", stdin=stdin).lines()
    assert sorted(str(one["id"]) for one in ranked["ranking"]) == ["7", "None", "None"]


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


def test_standard_input_is_a_dash_too(secondpass):
    stdin = json_lines(requests(2))
    assert secondpass(*LEXICAL, "-", stdin=stdin).out == secondpass(*LEXICAL, stdin=stdin).out


def test_nothing_in_gives_nothing_out(secondpass):
    told = secondpass(*LEXICAL)
    assert (told.code, told.out) == (0, "")
    assert "warning: there is no query in the input" in told.flat
    (empty,) = secondpass(*LEXICAL, "-q", "x").lines()
    assert empty["ranking"] == []


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


def test_texts_can_be_left_out_and_timings_put_in(secondpass):
    stdin = json_lines(FRUIT)
    (told,) = secondpass(*LEXICAL, "-q", "x", "--no-text", "--timings", stdin=stdin).lines()
    assert told["report"]["seconds"] >= 0
    assert not {"text", "metadata"} & set(told["ranking"][0])


def test_a_context_is_handed_on(secondpass, write, tmp_path):
    context = write("context.yaml", "nodes: []\n")
    told = secondpass(*LEXICAL, "-q", "x", "--context", context, stdin=json_lines(FRUIT))
    assert told.code == 0
    broken = write("broken.yaml", "a: [1\nb: 2")
    told = secondpass(*LEXICAL, "-q", "x", "--context", broken, stdin=json_lines(FRUIT))
    assert (told.code, "not JSON; as YAML: not YAML at line 2" in told.flat) == (1, True)


@pytest.mark.parametrize(
    "content", ["!!int ''", "!!bool x", "!!timestamp x", b"\xff", "a: \0", "a: 1\na: 2"]
)
def test_context_is_not_yaml(secondpass, write, content):
    context = write("context.yaml", content)
    told = secondpass(*LEXICAL, "-q", "x", "--context", context, stdin=json_lines(FRUIT))
    assert (told.code, "context.yaml: not JSON" in told.flat) == (1, True)


@pytest.mark.parametrize("content", ["{1: a, b: 2}", "[&a [1], *a]", "2020-01-01: {1: 2020-01-02}"])
def test_an_output_knows_any_context_again(secondpass, write, tmp_path, content):
    call = [*LEXICAL, "-q", "x", "-o", tmp_path / "out", "--resume", "--context"]
    stdin = json_lines(FRUIT)
    assert secondpass(*call, write("context.yaml", content), stdin=stdin).code == 0
    assert secondpass(*call, tmp_path / "context.yaml", stdin=stdin).code == 0
    told = secondpass(*call, write("context.yaml", "other"), stdin=stdin)
    assert (told.code, "was made with another context" in told.flat) == (1, True)


@pytest.mark.parametrize("field", ['"score": 1e999', '"far": [-1e999]'])
def test_numbers_that_would_be_infinite_are_refused(secondpass, field):
    told = secondpass(*LEXICAL, "-q", "x", stdin=f'{{"text": "x", {field}}}\n'.encode())
    assert (told.code, told.out) == (1, "")
    assert "standard input:1: is not JSON: a number is too large" in told.flat


def test_a_ranking_is_one_line_for_every_reader(secondpass):
    text = "".join(map(chr, (*range(32), *range(0x7F, 0xA0), 0x2028, 0x2029))) + "fruit"
    written = secondpass(*LEXICAL, "-q", "fruit", stdin=json_lines([{"text": text}]))
    (line,) = written.out.splitlines()
    assert json.loads(line)["ranking"][0]["text"] == text


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


def test_candidates_without_an_id_are_not_called_none(secondpass):
    told = secondpass(*LEXICAL, "-q", "x", "--explain", "None", stdin=b'"a text"\n')
    assert "--explain None: no candidate has this id" in told.flat


def test_explained_candidates_have_to_exist(secondpass):
    call = [*LEXICAL, "-q", "x", "--explain", "no\x1bne"]
    told = secondpass(*call, stdin=json_lines(FRUIT))
    assert (told.code, told.lines()[0]["explanations"]) == (0, [])
    assert "--explain no\\x1bne: no candidate has this id" in told.flat
    told = secondpass(*call, "--format", "trec", stdin=json_lines(FRUIT))
    assert (told.code, "use jsonl or table" in told.flat) == (2, True)


def test_table_counts_hidden_rows(secondpass):
    stdin = json_lines([f"text {number}" for number in range(12)])
    assert "and 2 more" in secondpass(*LEXICAL, "-q", "x", "-f", "table", stdin=stdin).out
    assert "more" not in secondpass(*LEXICAL, "-q", "x", "-f", "table", "-k12", stdin=stdin).out


def test_a_skipped_pass_is_written_and_summed(secondpass, write):
    candidates = [{"id": str(i), "text": "x", "score": score} for i, score in enumerate([9, 2, 1])]
    path = write("certain.jsonl", [{"query": "x", "candidates": candidates}])
    told = secondpass("rerank", path, "--preset", "lexical", "--set", "when.margin.below=0.5")
    assert json.loads(told.out)["report"]["skipped"]["reason"] == "margin 0.875 is not below 0.5"
    assert "; skipped: 1 query, 3 pairs" in told.err
    table = secondpass(
        *("rerank", path, "--preset", "lexical", "--set", "when.margin.below=0.5"),
        *("--format", "table"),
    )
    assert "x (skipped: margin 0.875 is not below 0.5)" in table.out


@pytest.mark.parametrize("query_id", [0, 7])
def test_integer_ids_come_back_as_they_were(secondpass, query_id):
    documents = [{"id": 3, "text": "a fruit"}, {"_id": 0, "text": "fruit fruit"}]
    stdin = json_lines([{"query_id": query_id, "query": "fruit", "candidates": documents}])
    (ranked,) = secondpass(*LEXICAL, stdin=stdin).lines()
    assert (ranked["query_id"], {item["id"] for item in ranked["ranking"]}) == (query_id, {0, 3})
    trec = secondpass(*LEXICAL, "--format", "trec", stdin=stdin).out
    assert {tuple(line.split()[:3]) for line in trec.splitlines()} == {
        (str(query_id), "Q0", "0"),
        (str(query_id), "Q0", "3"),
    }
    table = secondpass(*LEXICAL, "--format", "table", stdin=stdin).out
    assert " 0  " in table
