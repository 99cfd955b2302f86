"""Documents, queries, and lines of runs; scores in the order of trec_eval."""

import math
import os
from pathlib import Path

import pytest

from secondpass import InputError
from secondpass.formats.errors import FormatError
from secondpass.formats.lines import read_json_lines, read_lines
from secondpass.formats.reading import parse_document, parse_run_line, read_queries, trec_order


def documents(path):
    return [parse_document(line, record) for line, record in read_json_lines(path)]


def run_lines(path):
    return [parse_run_line(line) for line in read_lines(path)]


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_documents(tmp_path: Path) -> None:
    path = written(
        tmp_path / "corpus.jsonl",
        '\ufeff{"_id": "1", "title": "T", "text": "one", "metadata": {"url": "u"}}\r\n'
        "\n"
        '{"id": 2, "title": "", "text": "two", "year": 0}\n'
        '{"_id": "3", "id": "3", "text": "", "title": null, "metadata": null}',
    )
    first, second, third = documents(path)
    assert (first.id, first.text, first.score) == ("1", "one", None)
    assert first.metadata == {"title": "T", "url": "u"}
    assert (second.id, second.metadata) == (2, {"year": 0})
    assert (third.id, third.text, third.metadata) == ("3", "", {})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.jsonl", '{"_id": "1", "text": "a b", "metadata": {}}\n{"id": 2, "text": "c"}\n'),
        ("q.tsv", "1\ta b\r\n2\tc\r\n"),
        ("q", '{"id": "1", "text": "a b"}\n{"id": "2", "text": "c"}'),
        ("q.txt", "1\ta b\n\n2\tc"),
    ],
)
def test_queries(tmp_path: Path, name: str, text: str) -> None:
    assert read_queries(written(tmp_path / name, text)) == {"1": "a b", "2": "c"}


GOOD = {
    documents: '{"id": "1", "text": "one"}\n',
    read_queries: '{"id": "1", "text": "one"}\n',
    run_lines: "1 Q0 a 1 2.5 t\n",
}


@pytest.mark.parametrize(
    ("read", "line", "problem"),
    [
        (documents, "[1]", "must be a JSON object, not a list"),
        (documents, '{"text": "x"}', "needs an '_id' or 'id': a string or an integer"),
        (documents, '{"id": true, "text": "x"}', "needs an '_id' or 'id'"),
        (documents, '{"id": "", "text": "x"}', "needs an '_id' or 'id'"),
        (documents, '{"id": "2", "_id": "3", "text": ""}', "has both '_id' and 'id', and they"),
        (documents, '{"id": "2"}', "'text' must be a string; the line has only 'id'"),
        (documents, '{"id": "2", "body": "x"}', "'text' must be a string; rename 'body' to 'text'"),
        (
            documents,
            '{"doc_id": "2", "text": "x"}',
            "a string or an integer; rename 'doc_id' to 'i",
        ),
        (documents, '{"id": "2", "text": 3}', "'text' must be a string, not 3"),
        (documents, '{"id": "2", "text": "", "title": []}', "'title' must be a string, not a l"),
        (documents, '{"id": "2", "text": "", "metadata": "m"}', "'metadata' must be an object"),
        (documents, '{"id":2,"text":"","title":"a","metadata":{"title":"b"}}', "title is both b"),
        (read_queries, '{"id": "1", "text": "x"}', "id '1' was given before, in line 1"),
        (read_queries, '{"id": "2", "text": null}', "'text' must be a string, not None"),
        (run_lines, "1 Q0 b 2 1.5", "six fields (query Q0 document rank score tag), has 5"),
        (run_lines, "1 Q0 b two 1.5 t", "the rank must be an integer, not 'two'"),
        (run_lines, "1 Q0 b 2 nan t", "the score must be a finite number, not 'nan'"),
        (run_lines, "1 Q0 b 2 inf t", "the score must be a finite number, not 'inf'"),
        (run_lines, "1 Q0 b 2 1_0 t", "the score must be a finite number"),
        (run_lines, "1 Q0 b 2 1e39 t", "its score is beyond single precision"),
        (run_lines, "1 Q0 b 2 1e999 t", "its score is not finite"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, read, line: str, problem: str) -> None:
    path = written(tmp_path / "file.jsonl", f"{GOOD[read]}\n{line}\n")
    with pytest.raises(FormatError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert problem in str(caught.value)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs descriptors with paths")
def test_queries_from_a_pipe_are_refused_where_they_would_be_read_twice() -> None:
    pipe, end = os.pipe()
    os.write(end, b"q1\tone\nq2\ttwo\n")
    os.close(end)
    with pytest.raises(FormatError, match="must be a file, not a pipe"):
        read_queries(f"/dev/fd/{pipe}")
    os.close(pipe)


def test_ties_are_by_descending_id_in_trec_eval():
    scores = {"a": 1.0, "b": 1.0 + 1e-9, "c": 2.0, "d": 1.0}
    assert [*trec_order(scores)] == ["c", "d", "b", "a"]


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ("1", "is not a number"),
        (None, "is not a number"),
        (1e39, "is beyond single precision"),
        (math.inf, "is not finite"),
        (math.nan, "is not finite"),
    ],
)
def test_wrong_scores(score, message):
    with pytest.raises(InputError, match=f"document 'd7': its score {message}"):
        trec_order({"d7": score})
