import gzip
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sampling import examples
from secondpass import Candidate
from secondpass_evaluation import (
    FormatError,
    read_corpus,
    read_queries,
    write_corpus,
    write_queries,
)

words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=8)
shared_folder = settings(examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])


@shared_folder
@given(
    st.lists(
        st.builds(
            Candidate,
            text=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
            id=words,
            metadata=st.dictionaries(
                st.sampled_from(["title", "page", "url"]), st.one_of(words, st.integers())
            ),
        ),
        max_size=5,
        unique_by=lambda one: one.id,
    )
)
def test_a_corpus_comes_back(tmp_path, corpus):
    plain, packed = tmp_path / "corpus.jsonl", tmp_path / "corpus.jsonl.gz"
    for path in (plain, packed):
        write_corpus(path, corpus)
        assert list(read_corpus(path)) == corpus
    first = packed.read_bytes()
    assert gzip.decompress(first) == plain.read_bytes()
    write_corpus(packed, corpus)
    assert packed.read_bytes() == first  # no time, no name


@pytest.mark.parametrize("suffix", ["jsonl", "tsv", "jsonl.gz", "tsv.gz"])
@shared_folder
@given(st.dictionaries(words, st.lists(words, min_size=1).map(" ".join), max_size=5))
def test_queries_come_back(tmp_path, suffix, queries):
    path = tmp_path / f"queries.{suffix}"
    if any("\ufeff" in each for each in queries):
        return
    write_queries(path, queries)
    assert read_queries(path) == queries


@pytest.mark.parametrize(
    ("corpus", "told"),
    [
        ([Candidate("a")], "candidate 1: has no id"),
        ([Candidate("a", "1"), Candidate("b", "1")], "candidate 2: the id '1' is repeated"),
        ([Candidate(None, "1")], "candidate 1: has no text"),  # type: ignore[arg-type]
        ([Candidate("a", "1", metadata={"x": object()})], "candidate 1: JSON cannot hold it"),
        ([Candidate("a", "1", metadata={"x": float("nan")})], "candidate 1: JSON cannot hold it"),
        ([Candidate("\ud800", "1")], "candidate 1: JSON cannot hold it"),
    ],
)
def test_a_corpus_that_cannot_be_written_leaves_the_file_as_it_was(tmp_path, corpus, told):
    path = tmp_path / "corpus.jsonl"
    path.write_text("before")
    with pytest.raises(FormatError, match=told):
        write_corpus(path, corpus)
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["corpus.jsonl"]


@pytest.mark.parametrize(
    ("queries", "told"),
    [
        ({"q": "two\tfields"}, "query 'q': the text has white space"),
        ({"q": "two\nlines"}, "query 'q': the text has white space"),
        ({"a b": "text"}, "query id 'a b' has white space"),
        ({"q": None}, "query 'q': the text must be a string, not nothing"),
    ],
)
def test_queries_that_a_tsv_cannot_hold(tmp_path, queries, told):
    with pytest.raises(FormatError, match=told):
        write_queries(tmp_path / "queries.tsv", queries)
    assert not list(tmp_path.iterdir())


def test_json_lines_hold_any_white_space(tmp_path):
    path = tmp_path / "queries.jsonl"
    write_queries(path, {"a b": "two\tfields\nand lines"})
    assert json.loads(path.read_text()) == {"_id": "a b", "text": "two\tfields\nand lines"}
    assert read_queries(path) == {"a b": "two\tfields\nand lines"}
