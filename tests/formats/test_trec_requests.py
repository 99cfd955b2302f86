"""Requests from a TREC run."""

import gzip
import io
import json
import os

import pytest

from secondpass import InputError
from secondpass.formats.errors import FormatError
from secondpass.formats.trec_requests import CorpusFile, read_run_requests

DOCUMENTS = [
    {"_id": "a", "text": "owls", "title": "T", "metadata": {"year": 7}},
    {"_id": "b", "text": "cats"},
    {"_id": "c", "text": "ü"},
]
QUERIES = {"q1": "which owl", "q2": "which cat"}


@pytest.fixture(params=["jsonl", "jsonl.gz"])
def corpus(request, tmp_path):
    path = tmp_path / f"corpus.{request.param}"
    content = "\n".join(map(json.dumps, DOCUMENTS)).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    with CorpusFile(path, [].append) as opened:
        yield opened


def read(text, corpus):
    return list(read_run_requests(io.BytesIO(text.encode()), "run", QUERIES, corpus))


def test_documents_by_id(corpus):
    candidate, raw = corpus.get("b")
    assert (candidate.text, candidate.id) == ("cats", "b")
    assert raw == json.dumps(DOCUMENTS[1]).encode()
    assert corpus.get("c")[0].text == "ü"
    assert corpus.get("z") is None


def test_requests_are_in_the_order_of_trec_eval(corpus):
    first, second = read(
        "q1 Q0 a 1 0.5 t\nq1 Q0 c 2 0.9 t\nq1 Q0 b 3 0.5 t\nq2 Q0 a 1 1 t\n", corpus
    )
    assert (first.query_id, first.query) == ("q1", "which owl")
    assert [(item.id, item.score) for item in first.candidates] == [
        ("c", 0.9),
        ("b", 0.5),
        ("a", 0.5),
    ]
    assert first.candidates[2].metadata["year"] == 7
    assert (second.query, [item.id for item in second.candidates]) == ("which cat", ["a"])
    assert first.digest != second.digest


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("q1 Q0 a 1 1 t\nq2 Q0 a 1 1 t\nq1 Q0 b 1 1 t\n", "run:3: the lines of query 'q1' are"),
        ("q9 Q0 a 1 1 t\n", "run:1: query 'q9' is not among the queries"),
        ("q1 Q0 a 1 1 t\nq1 Q0 a 2 0 t\n", "run:2: query 'q1' has document 'a' twice"),
        ("q1 Q0 a 1 1 t\nq1 Q0 z 2 0 t\n", "run:2: document 'z' is not in "),
        ("q1 Q0 a 1\n", "run:1: "),
    ],
    ids=["not consecutive", "unknown query", "twice", "unknown document", "too few fields"],
)
def test_wrong_runs(run, message, corpus):
    with pytest.raises(FormatError) as caught:
        read(run, corpus)
    assert str(caught.value).startswith(message)


def test_repeated_ids_of_documents(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join(map(json.dumps, [*DOCUMENTS, DOCUMENTS[1]])))
    with pytest.raises(FormatError, match=r":4: id 'b' was given before, in line 2"):
        CorpusFile(path, [].append)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_cannot_be_read_twice(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    try:
        with pytest.raises(InputError, match="must be a file, not a pipe"):
            CorpusFile(path, [].append)
    finally:
        os.close(writer)
