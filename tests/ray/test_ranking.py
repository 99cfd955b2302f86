"""Rows are ranked as ``secondpass rerank`` ranks lines, byte for byte."""

import json
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_calls import called
from command_requests import json_lines, requests
from secondpass import Reranker
from secondpass.errors import InputError
from secondpass_ray.ranking import Choices, Row, RowRanker, describe_error

TEXT = st.text(max_size=12)
VALUE = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**30), 10**30),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXT,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)
CANDIDATE = st.one_of(
    TEXT,
    st.fixed_dictionaries(
        {"text": TEXT},
        optional={
            "id": st.one_of(TEXT, st.integers()),
            "score": st.floats(allow_nan=False, allow_infinity=False),
            "metadata": st.dictionaries(TEXT, VALUE, max_size=3),
            "page": VALUE,
        },
    ),
)
REQUEST = st.fixed_dictionaries(
    {"query": TEXT, "candidates": st.lists(CANDIDATE, max_size=5)},
    optional={"top_k": st.integers(1, 5), "context": VALUE, "unknown": VALUE},
)


def text_of(request, ascii_only, twice):
    text = json.dumps(request, ensure_ascii=ascii_only)
    if twice:  # a key that is repeated counts as it does for any reader of JSON
        text = text[:-1] + ', "query": "the last one"}'
    return text


def ranked(folder, content, reranker=None, size=9, **choices):
    """The lines of rows with this content, in batches of this size, and their counts."""
    (folder / "in.jsonl").write_bytes(content)
    ranker = RowRanker(reranker or Reranker.from_preset("lexical"), Choices(**choices))
    rows = [
        Row("in.jsonl", number, line, {"row": number})
        for number, line in enumerate(content.splitlines(), 1)
    ]
    lines, counts = [], Counter()
    for first in range(0, len(rows), size):
        batch = rows[first : first + size]
        found = ranker.lines(batch, [ranker.parse(row) for row in batch])
        lines += found.lines
        counts.update(found.counts)
    return lines, counts


def without_number(number, line):
    prefix = f'{{"row": {number}, '
    assert line.startswith(prefix)
    return "{" + line.removeprefix(prefix)


@settings(max_examples=settings().max_examples // 4)
@given(
    found=st.lists(st.tuples(REQUEST, st.booleans(), st.booleans()), min_size=1, max_size=6),
    ids=st.booleans(),
    size=st.integers(1, 4),
)
def test_lines_are_those_of_rerank(tmp_path_factory, found, ids, size):
    folder = tmp_path_factory.mktemp("rows")
    lines = [
        text_of({**request, **({"query_id": number} if ids else {})}, *form)
        for number, (request, *form) in enumerate(found)
    ]
    content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
    rows, _ = ranked(folder, content, size=size, options={})
    told = called("rerank", folder / "in.jsonl", "-p", "lexical", "-o", folder / "out.jsonl")
    if told.code:  # such as an option that does not fit the candidates
        assert any('"error"' in line for line in rows)
        return
    plain = "".join(without_number(number, line) for number, line in enumerate(rows, 1))
    assert plain.encode("utf-8", "backslashreplace") == (folder / "out.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "is not JSON"),
        (b'{"query": "\xff"}', "is not UTF-8"),
        (b"{}", "needs a 'query': a string; the line has no key"),
        (b'{"query": "q", "candidates": [], "top_k": 0}', "top_k: must be 1 or more"),
        (b'{"query":' + b"[" * 9999 + b"]" * 9999 + b"}", "nested too deeply"),
    ],
    ids=range(5),
)
def test_a_row_that_is_no_request_harms_no_other(tmp_path, line, problem):
    good = json_lines(requests(2)).splitlines()
    rows, _ = ranked(tmp_path, b"\n".join([good[0], line, good[1]]), size=2, options={})
    records = [json.loads(one) for one in rows]
    assert [record["row"] for record in records] == [1, 2, 3]
    assert records[1].keys() == {"row", "error"}
    assert records[1]["error"]["code"] == "not_a_request"
    assert records[1]["error"]["message"].startswith("in.jsonl:2: ")
    assert problem in records[1]["error"]["message"]
    assert [records[index]["query_id"] for index in (0, 2)] == ["q0", "q1"]


def test_choices_apply_where_a_request_has_no_option(tmp_path):
    content = json_lines([{**requests(1)[0], "top_k": 3}, requests(2)[1]])
    rows, counts = ranked(tmp_path, content, options={"top_k": 1}, text=False)
    records = [json.loads(line) for line in rows]
    assert [len(record["ranking"]) for record in records] == [3, 1]
    assert "text" not in records[0]["ranking"][0]
    assert counts == {"ok": 2}


def test_a_strict_row_keeps_its_ranking_and_says_why(tmp_path):
    given = [
        {"query": "q", "candidates": ["a", "b"]},
        {"query": "q", "candidates": ["a", "b"], "strict": True, "order": "lost_in_the_middle"},
    ]

    class Broken:
        def score_pairs(self, query, texts):
            return [float("nan")] * len(texts)

    rows, counts = ranked(tmp_path, json_lines(given), Reranker(Broken()), options={})
    records = [json.loads(line) for line in rows]
    assert "error" not in records[0]
    assert records[1]["error"]["code"] == "not_complete"
    assert [len(record["ranking"]) for record in records] == [2, 2]
    assert counts["not_complete"] == 1


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (InputError("a file is missing"), "a file is missing"),
        (FileNotFoundError(2, "No such file", "a.jsonl"), "a.jsonl: No such file"),
        (OSError("text of a row"), "OSError"),
        (ValueError("text of a row"), "internal error: ValueError"),
    ],
    ids=["ours", "file", "system", "internal"],
)
def test_errors_hold_no_text_of_a_row(error, text):
    assert describe_error(error) == text


def test_ray_is_imported_late():
    code = (
        "import sys, secondpass_ray, secondpass_ray.cli, "
        "secondpass_ray.job; assert not {'ray', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
