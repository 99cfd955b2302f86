"""Input that cannot be read, and calls that cannot be carried out."""

import json

import pytest

from command_requests import FRUIT, LEXICAL, json_lines, requests

LINE = {"query_id": "a", "query": "x", "candidates": []}


@pytest.mark.parametrize(
    ("stdin", "told"),
    [
        (json_lines(requests(16)) + b"{broken\n", "standard input:17: is not JSON"),
        (b"\xff\n", "standard input:1: is not UTF-8"),
        (b"[1]\n", "standard input:1: must be a JSON object, not"),
        (b"[" * 100_000, "standard input:1: is not JSON that can be parsed: it is nested"),
        (
            b'{"query": "x", "candidates": [{"text": "a", "score": NaN}]}',
            "NaN is not a JSON number",
        ),
        (json_lines([LINE, {**LINE, "query_id": None}]), ":2: has no 'query_id', unlike earlier"),
        (json_lines([{**LINE, "query_id": None}, LINE]), ":2: has a 'query_id', unlike earlier"),
        (json_lines([LINE, LINE]), ":2: id 'a' was given before, in line 1"),
        (json_lines([{**LINE, "id": "b"}]), "has 'query_id' and 'id', and they differ"),
        (json_lines([{**LINE, "query_id": [1]}]), "'query_id' must be a string or an integer"),
        (json_lines([{"text": "x"}]), "has no 'query'; to rank these lines as candidates, give"),
        (json_lines([{**LINE, "query": 3}]), "needs a 'query': a string, not"),
        (json_lines([{**LINE, "candidates": {}}]), "needs 'candidates': a list, not"),
        (json_lines([{**LINE, "candidates": ["a", 3]}]), "candidate 2: must be an object or a"),
        (json_lines([{**LINE, "candidates": [{"id": 1}]}]), "candidate 1: has no 'text'; its keys"),
        (
            json_lines([{**LINE, "candidates": [{"text": "a", "score": "1"}]}]),
            "candidate 1: the score must be a number, not",
        ),
        (
            json_lines([{**LINE, "candidates": [{"text": "a", "id": "1", "_id": 2}]}]),
            "candidate 1: has 'id' and '_id', and they differ",
        ),
        (
            json_lines([{**LINE, "candidates": [{"text": "a", "metadata": 1}]}]),
            "candidate 1: metadata: give a mapping",
        ),
    ],
    ids=range(18),
)
def test_invalid_lines_are_named_by_number(secondpass, stdin, told):
    outcome = secondpass(*LEXICAL, stdin=stdin)
    assert outcome.code == 1
    assert told in outcome.flat


def test_lines_without_exactly_one_value(secondpass):
    told = secondpass(*LEXICAL, "-q", "x", stdin=json.dumps(FRUIT).encode())
    assert "standard input:1: is a list; put each candidate on its own line" in told.flat
    told = secondpass(*LEXICAL, "-q", "x", stdin=json.dumps(FRUIT, indent=1).encode())
    assert "standard input:1: is not JSON: Expecting value at column 2; each line" in told.flat


def test_requests_beside_query_are_refused(secondpass):
    outcome = secondpass(*LEXICAL, "-q", "x", stdin=json_lines(requests(1)))
    assert outcome.code == 1
    assert "to rank them, leave out --query" in outcome.flat


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["nowhere.jsonl"], 1, "nowhere.jsonl: there is no such file or folder"),
        (["--context", "nowhere"], 1, "nowhere: there is no such file or folder"),
        (["."], 1, "Is a directory"),
        (["-o", "."], 1, "Is a directory"),
        (["-o", "no/such/folder"], 1, "there is no such file or folder"),
        (["-f", "trec", "--tag", "a b"], 1, "'a b' has white space"),
        (["--run", "r"], 2, "--run: needs --queries and --corpus"),
        (["--run", "r", "--queries", "q"], 2, "--run: needs --queries and --corpus"),
        (["--corpus", "c"], 2, "--queries, --corpus: need --run"),
        (["--run", "r", "-q", "x"], 2, "--query, --run: give one of them"),
        (["f", "--run", "r"], 2, "FILE, --run: give one of them"),
        (["--resume"], 2, "--resume: needs --output"),
        (["--resume", "-o", "-"], 2, "--resume: needs --output"),
        (["-q", " "], 2, "--query: is empty"),
        (["--json", "-f", "trec"], 2, "--json, --format: give one of them"),
        (["--resume", "--force", "-o", "x"], 2, "--resume, --force: give one of them"),
        (["--top-k", "0"], 2, "--top-k"),
        (["--batch", "many"], 2, "--batch"),
        (["--format", "xml"], 2, "--format"),
        (["--nosuch"], 2, "--nosuch"),
        (["-p", "lexical"], 2, "--preset: give it once"),
        (["-q", "x", "-q", "y"], 2, "--query: give it once"),
    ],
)
def test_invalid_calls(secondpass, tmp_path, monkeypatch, arguments, code, told):
    monkeypatch.chdir(tmp_path)
    outcome = secondpass(*LEXICAL, *arguments)
    assert (outcome.code, told in outcome.flat) == (code, True), outcome.err


def test_rankings_not_ok_are_counted_and_fail_under_strict(secondpass, write):
    config = write(
        "endpoint.yaml", "method: {type: endpoint, api: tei, base_url: http://127.0.0.1:9}"
    )
    call = ["rerank", "--config", config, "--set", "limits.retries=0"]
    told = secondpass(*call, stdin=json_lines(requests(2)))
    assert told.code == 0
    assert "0 ok, 0 partial, 0 degraded, 2 unchanged; issues:" in told.err
    assert told.err.count("warning: reranking is unchanged") == 1  # the same for both queries
    stopped = secondpass(*call, "--set", "strict=true", stdin=json_lines(requests(2)))
    assert (stopped.code, "requests 1 to 2: reranking is unchanged" in stopped.flat) == (1, True)
    strict = secondpass(*call, "--strict", "--quiet", stdin=json_lines(requests(2)))
    assert (strict.code, strict.out) == (1, told.out)
    assert secondpass(*LEXICAL, "--strict", stdin=json_lines(requests(2))).code == 0
