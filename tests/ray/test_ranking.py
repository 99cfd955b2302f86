"""Rows are ranked as ``secondpass rerank`` ranks lines, byte for byte."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_calls import called
from command_requests import json_lines, requests
from secondpass import Reranker
from secondpass_ray.blocks import read_rows
from secondpass_ray.inputs import JobInput
from secondpass_ray.ranking import Choices, RowRanker, in_batches

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


def rankings(path, size, folder, **choices):
    ranker = RowRanker(Reranker.from_preset("lexical"), Choices({}, **choices))
    blocks, _ = JobInput(str(path)).prepare(str(folder), size, lambda *_: None)
    lines = []
    for block in blocks:
        for batch in in_batches(read_rows(block, block.first), 3):
            lines += ranker.lines(batch, [ranker.parse(row) for row in batch]).lines
    return lines, ranker


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
    path = folder / "in.jsonl"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))
    told = called("rerank", path, "-p", "lexical", "-o", folder / "out.jsonl")
    ranked, _ = rankings(path, size, folder)
    if told.code:  # such as an option that does not fit the candidates
        assert any('"error"' in line for line in ranked)
        return
    plain = "".join(without_number(number, line) for number, line in enumerate(ranked))
    assert plain.encode("utf-8", "backslashreplace") == (folder / "out.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "is not JSON"),
        (b'{"query": "\xff"}', "is not UTF-8"),
        (b"{}", "needs a 'query': a string, not nothing"),
        (b'{"query": "q", "candidates": [], "top_k": 0}', "top_k: must be 1 or more"),
        (b'{"query":' + b"[" * 9999 + b"]" * 9999 + b"}", "nested too deeply"),
    ],
    ids=range(5),
)
def test_a_row_that_is_no_request_harms_no_other(tmp_path, line, problem):
    good = json_lines(requests(2)).splitlines()
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\n".join([good[0], line, good[1]]))
    ranked, _ = rankings(path, 2, tmp_path)
    records = [json.loads(one) for one in ranked]
    assert [record["row"] for record in records] == [0, 1, 2]
    assert records[1].keys() == {"row", "error"}
    assert records[1]["error"]["code"] == "not_a_request"
    assert records[1]["error"]["message"].startswith("in.jsonl:2: ")
    assert problem in records[1]["error"]["message"]
    assert [records[index]["query_id"] for index in (0, 2)] == ["q0", "q1"]


def test_choices_apply_where_a_request_has_no_option(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(json_lines([{**requests(1)[0], "top_k": 3}, requests(2)[1]]))
    ranker = RowRanker(Reranker.from_preset("lexical"), Choices({"top_k": 1}, text=False))
    blocks, _ = JobInput(str(path)).prepare(str(tmp_path), 9, lambda *_: None)
    rows = [*read_rows(blocks[0], 0)]
    ranked = ranker.lines(rows, [ranker.parse(row) for row in rows])
    records = [json.loads(line) for line in ranked.lines]
    assert [len(record["ranking"]) for record in records] == [3, 1]
    assert "text" not in records[0]["ranking"][0]
    assert ranked.counts == {"ok": 2}


def test_a_strict_row_keeps_its_ranking_and_says_why(tmp_path):
    path = tmp_path / "in.jsonl"
    given = [
        {"query": "q", "candidates": ["a", "b"]},
        {"query": "q", "candidates": ["a", "b"], "strict": True, "order": "lost_in_the_middle"},
    ]
    path.write_bytes(json_lines(given))

    class Broken:
        def score_pairs(self, query, texts):
            return [float("nan")] * len(texts)

    ranker = RowRanker(Reranker(Broken()), Choices({}))
    blocks, _ = JobInput(str(path)).prepare(str(tmp_path), 9, lambda *_: None)
    rows = [*read_rows(blocks[0], 0)]
    ranked = ranker.lines(rows, [ranker.parse(row) for row in rows])
    records = [json.loads(line) for line in ranked.lines]
    assert "error" not in records[0]
    assert records[1]["error"]["code"] == "not_complete"
    assert [len(record["ranking"]) for record in records] == [2, 2]
    assert ranked.counts["not_complete"] == 1


def test_ray_is_imported_late():
    code = (
        "import sys, secondpass_ray, secondpass_ray.cli, "
        "secondpass_ray.running; assert not {'ray', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
