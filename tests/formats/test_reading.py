"""Corpora, queries, judgements and runs."""

import os
from pathlib import Path

import pytest

from secondpass.formats.errors import FormatError
from secondpass.formats.reading import read_corpus, read_qrels, read_queries, read_run


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_what_is_read_ties_as_in_trec_eval(tmp_path: Path) -> None:
    path = written(
        tmp_path / "run", "q Q0 a 1 2.5 t\nq Q0 c 2 2.5 t\nq Q0 b 3 2.5 t\nq Q0 d 4 9 t\n"
    )
    assert list(read_run(path)["q"]) == ["d", "c", "b", "a"]


def test_corpus(tmp_path: Path) -> None:
    path = written(
        tmp_path / "corpus.jsonl",
        '\ufeff{"_id": "1", "title": "T", "text": "one", "metadata": {"url": "u"}}\r\n'
        "\n"
        '{"id": 2, "title": "", "text": "two", "year": 0}\n'
        '{"_id": "3", "id": "3", "text": "", "title": null, "metadata": null}',
    )
    first, second, third = read_corpus(path)
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


@pytest.mark.parametrize(
    ("text", "second"),
    [
        ("1 0 a 2\n1 Q0 b -1\n2\t0\ta\t0\n", {"2": {"a": 0}}),
        ("query-id\tcorpus-id\tscore\n1\ta\t2\n1\tb\t-1\nq 2\ta b\t0\n", {"q 2": {"a b": 0}}),
        ("query-id\tdoc-id\trelevance\r\n1\ta\t2\r\n1\ta\t2\r\n1\tb\t-1\r\n\r\n", {}),
    ],
)
def test_qrels(tmp_path: Path, text: str, second: dict[str, dict[str, int]]) -> None:
    assert read_qrels(written(tmp_path / "q", text)) == {"1": {"a": 2, "b": -1}, **second}


def test_empty_files_hold_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "empty", "\n")
    assert list(read_corpus(path)) == []
    assert read_queries(path) == read_qrels(path) == read_run(path) == {}


GOOD = {
    read_corpus: '{"id": "1", "text": "one"}\n',
    read_queries: '{"id": "1", "text": "one"}\n',
    read_qrels: "1 0 a 1\n",
    read_run: "1 Q0 a 1 2.5 t\n",
}


@pytest.mark.parametrize(
    ("read", "line", "problem"),
    [
        (read_corpus, "[1]", "must be a JSON object, not a list"),
        (read_corpus, '{"text": "x"}', "needs an '_id' or 'id': a string or an integer"),
        (read_corpus, '{"id": true, "text": "x"}', "needs an '_id' or 'id'"),
        (read_corpus, '{"id": "", "text": "x"}', "needs an '_id' or 'id'"),
        (read_corpus, '{"id": "2", "_id": "3", "text": ""}', "has both '_id' and 'id', and they"),
        (read_corpus, '{"id": "1", "text": "x"}', "id '1' was given before, in line 1"),
        (read_corpus, '{"id": 1, "text": "x"}', "id 1 was given before, in line 1"),
        (read_corpus, '{"id": "2"}', "'text' must be a string, not nothing"),
        (read_corpus, '{"id": "2", "text": 3}', "'text' must be a string, not 3"),
        (read_corpus, '{"id": "2", "text": "", "title": []}', "'title' must be a string, not a l"),
        (read_corpus, '{"id": "2", "text": "", "metadata": "m"}', "'metadata' must be an object"),
        (read_corpus, '{"id":2,"text":"","title":"a","metadata":{"title":"b"}}', "title is both b"),
        (read_queries, '{"id": "1", "text": "x"}', "id '1' was given before, in line 1"),
        (read_queries, '{"id": "2", "text": null}', "'text' must be a string, not nothing"),
        (read_qrels, "1 0 b", "must have four fields (query 0 document relevance), has 3; tab-"),
        (read_qrels, "1 0 b 1 x", "must have four fields (query 0 document relevance), has 5"),
        (read_qrels, "1 0 b 1.0", "the relevance must be an integer, not '1.0'"),
        (read_qrels, "1 0 b 1_0", "the relevance must be an integer"),
        (read_qrels, "1 0 b 99999999999", "of document 'b' for query '1' must be -2147483648 to "),
        (read_qrels, "1 0 a 0", "document 'a' of query '1' was judged 1 before, now 0"),
        (read_qrels, "1\ta", "three tab-separated fields (query document relevance), has 2"),
        (read_qrels, "1\t\t1", "an id is empty"),
        (read_qrels, "1\ta\tx", "the relevance must be an integer, not 'x'"),
        (read_run, "1 Q0 b 2 1.5", "six fields (query Q0 document rank score tag), has 5"),
        (read_run, "1 Q0 b two 1.5 t", "the rank must be an integer, not 'two'"),
        (read_run, "1 Q0 b 2 nan t", "the score must be a finite number, not 'nan'"),
        (read_run, "1 Q0 b 2 inf t", "the score must be a finite number, not 'inf'"),
        (read_run, "1 Q0 b 2 1_0 t", "the score must be a finite number"),
        (read_run, "1 Q0 b 2 1e39 t", "its score is beyond single precision"),
        (read_run, "1 Q0 b 2 1e999 t", "its score is not finite"),
        (read_run, "1 Q0 a 2 1 t", "query '1' has document 'a' twice"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, read, line: str, problem: str) -> None:
    before = "query-id\tcorpus-id\tscore\n" if "\t" in line else GOOD[read]
    path = written(tmp_path / "file.jsonl", f"{before}\n{line}\n")
    with pytest.raises(FormatError) as caught:
        list(read(path))
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
