import gzip
import json
import math
import os
import stat
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flushed_files import check_order, events, linux
from sampling import examples
from secondpass import Candidate
from secondpass_evaluation import (
    FormatError,
    read_corpus,
    read_qrels,
    read_queries,
    read_run,
    write_corpus,
    write_qrels,
    write_queries,
    write_run,
)
from secondpass_evaluation.cli.first_stages import CachedEmbedder
from secondpass_evaluation.search.indexing import build_index

words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=8)
in_tmp_path = settings(examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])


@in_tmp_path
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
@in_tmp_path
@given(st.dictionaries(words, st.lists(words, min_size=1).map(" ".join), max_size=5))
def test_queries_come_back(tmp_path, suffix, queries):
    path = tmp_path / f"queries.{suffix}"
    if any("\ufeff" in each for each in queries):
        return
    write_queries(path, queries)
    assert read_queries(path) == queries


def test_ids_of_other_kinds_are_written_as_strings_or_integers(tmp_path):
    ids = [7, np.int64(8), UUID(int=9)]
    write_corpus(tmp_path / "corpus.jsonl", [Candidate("a", each) for each in ids])
    assert [item.id for item in read_corpus(tmp_path / "corpus.jsonl")] == [7, 8, str(ids[2])]


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


def test_json_lines_hold_any_white_space(tmp_path):
    path = tmp_path / "queries.jsonl"
    write_queries(path, {"a b": "two\tfields\nand lines"})
    assert json.loads(path.read_text()) == {"_id": "a b", "text": "two\tfields\nand lines"}
    assert read_queries(path) == {"a b": "two\tfields\nand lines"}


ids = st.text(min_size=1, max_size=8).filter(
    lambda text: (
        text.split() == [text]
        and "\0" not in text
        and not text.startswith("\ufeff")
        and not any("\ud800" <= character <= "\udfff" for character in text)
    )
)
few_scores = st.sampled_from([0.0, -0.0, 1.0, 1.0 + 1e-9, 1.0 - 1e-9, -2.5, 1e-46, 3.0])
scores = st.one_of(few_scores, st.floats(-1e30, 1e30))
runs = st.dictionaries(ids, st.dictionaries(ids, scores, min_size=1, max_size=12), max_size=4)
all_qrels = st.dictionaries(
    ids, st.dictionaries(ids, st.integers(-2, 5), min_size=1, max_size=8), max_size=4
)


@given(qrels=all_qrels)
@in_tmp_path
def test_qrels_come_back(tmp_path: Path, qrels: dict[str, dict[str, int]]) -> None:
    write_qrels(tmp_path / "qrels", qrels)
    back = read_qrels(tmp_path / "qrels")
    assert json.dumps(back) == json.dumps(qrels)  # in the same order


@given(run=runs)
@in_tmp_path
def test_a_run_comes_back_in_its_order(tmp_path: Path, run: dict[str, dict[str, float]]) -> None:
    path = tmp_path / "run"
    write_run(path, run)
    back = read_run(path)
    assert list(back) == list(run)
    for query, found in run.items():
        in_order = sorted(found, key=lambda one: float32(found[one]), reverse=True)
        assert list(back[query]) == in_order
        for document, score in back[query].items():
            assert score == pytest.approx(found[document], rel=1e-5, abs=1e-40)
    again = tmp_path / "again"
    write_run(again, back)
    assert again.read_bytes() == path.read_bytes()


def float32(score: float) -> float:
    import numpy as np

    return float(np.float32(score))


def test_ties_are_written_to_fall_in_the_order_of_the_mapping(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"q": {"a": 1.0, "z": 1.0, "m": 1.0, "low": 0.25, "top": 7}}, "me")
    assert (tmp_path / "run").read_text() == (
        "q Q0 top 1 7.0 me\n"
        "q Q0 a 2 1.0 me\n"
        "q Q0 z 3 0.9999999403953552 me\n"
        "q Q0 m 4 0.9999998807907104 me\n"
        "q Q0 low 5 0.25 me\n"
    )


LOWEST = -3.4028234663852886e38


@pytest.mark.parametrize(
    ("write", "values", "problem"),
    [
        (write_run, {"a b": {"a": 1.0}}, "query id "),
        (write_run, {"q": {"a b": 1.0}}, "document id "),
        (write_run, {"q": {"a": math.nan}}, "query 'q', document 'a': its score is not finite"),
        (write_run, {"q": {"a": LOWEST, "b": LOWEST}}, "query 'q', document 'b': its score is "),
        (write_qrels, {"a b": {"a": 1}}, "query id "),
        (write_qrels, {"q": {"a b": 1}}, "document id "),
        (write_qrels, {"q": {"a": 1.5}}, "query 'q', document 'a': the relevance must be "),
        (write_qrels, {"q": {}}, "query 'q' has no judgments"),
        (write_queries, {"q": "two\tfields"}, "query 'q': the text has white space"),
        (write_queries, {"q": "two\nlines"}, "query 'q': the text has white space"),
        (write_queries, {"a b": "text"}, "query id 'a b' has white space"),
        (write_queries, {"q": None}, "query 'q': the text must be a string, not None"),
    ],
)
def test_what_a_file_cannot_hold_is_refused(tmp_path: Path, write, values, problem) -> None:
    with pytest.raises(FormatError, match=rf"file\.tsv: {problem}"):
        write(tmp_path / "file.tsv", values)
    assert os.listdir(tmp_path) == []


def test_a_tag_has_no_white_space(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="file: tag "):
        write_run(tmp_path / "file", {}, "a b")


def test_a_written_file_has_the_usual_permissions(tmp_path: Path) -> None:
    usual = tmp_path / "usual"
    usual.write_text("")
    write_qrels(tmp_path / "qrels", {"q": {"a": 1}})
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (usual, tmp_path / "qrels")}
    assert len(modes) == 1


__all__ = ["events"]


@linux
def test_kept_vectors(tmp_path: Path, events) -> None:
    import numpy as np

    class Embedder:
        def embed(self, texts):
            return np.ones((len(texts), 1), dtype=np.float32)

    CachedEmbedder(Embedder(), "ones", tmp_path).embed(["a", "b"])
    (kept,) = tmp_path.iterdir()
    check_order(events, kept.name, tmp_path)


@linux
def test_an_index(tmp_path: Path, events) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("owls hunt at night")
    build_index(tmp_path / "docs", tmp_path / "index")
    check_order(events, "secondpass-index.json", tmp_path / "index")
    renamed = events.index(("rename", "secondpass-index.json"))
    (parts,) = (tmp_path / "index").glob("parts-*")
    for path in [parts, *parts.rglob("*")]:
        assert ("flush", path.name) in events[:renamed]
