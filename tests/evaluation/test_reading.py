"""Corpora, judgements and runs; scores and relevances as trec_eval reads them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.formats.errors import FormatError
from secondpass.formats.reading import single_precision
from secondpass_evaluation.reading import (
    RELEVANCE,
    read_corpus,
    read_qrels,
    read_run,
    strictly_falling,
    whole_relevance,
)


@pytest.fixture
def file(tmp_path):
    """Writes a file of a text; its path."""

    def written(text):
        path = tmp_path / "file"
        path.write_bytes(text.encode())
        return path

    return written


def test_a_corpus(file):
    path = file('{"_id": "1", "text": "one"}\n\n{"id": 2, "text": "two"}\n')
    assert [(item.id, item.text) for item in read_corpus(path)] == [("1", "one"), (2, "two")]


def test_ties_of_a_run_are_as_in_trec_eval(file):
    path = file("q Q0 a 1 2.5 t\nq Q0 c 2 2.5 t\nq Q0 b 3 2.5 t\nq Q0 d 4 9 t\n")
    assert list(read_run(path)["q"]) == ["d", "c", "b", "a"]


HEADER = "query-id\tcorpus-id\tscore\n"


@pytest.mark.parametrize(
    ("text", "second"),
    [
        ("1 0 a 2\n1 Q0 b -1\n2\t0\ta\t0\n", {"2": {"a": 0}}),
        (f"{HEADER}1\ta\t2\n1\tb\t-1\nq 2\ta b\t0\n", {"q 2": {"a b": 0}}),
        ("query-id\tdoc-id\trelevance\r\n1\ta\t2\r\n1\ta\t2\r\n1\tb\t-1\r\n\r\n", {}),
        ("QID\tdoc-id\trelevance\n1\ta\t2\n1\tb\t-1\n", {}),
    ],
)
def test_judgements(file, text, second):
    assert read_qrels(file(text)) == {"1": {"a": 2, "b": -1}, **second}


def test_empty_files_have_nothing(file):
    path = file("\n")
    assert list(read_corpus(path)) == []
    assert read_qrels(path) == read_run(path) == {}


@pytest.mark.parametrize(
    ("read", "first", "line", "problem"),
    [
        (read_corpus, '{"id": 1, "text": ""}', '{"id": "1", "text": "x"}', "id '1' was given befo"),
        (read_qrels, "1 0 a 1", "1 0 b", "must have four fields (query 0 document relevance), has"),
        (read_qrels, "1 0 a 1", "1 0 b", "has 3; tab-separated judgments of three columns need"),
        (read_qrels, "1 0 a 1", "1,b,1", "has 1; the fields are separated by commas: use tabs"),
        (read_qrels, "1 0 a 1", "1 0 b 1 x", "must have four fields (query 0 document relevance)"),
        (read_qrels, "1 0 a 1", "1 0 b 1.0", "the relevance must be an integer, not '1.0'"),
        (read_qrels, "1 0 a 1", "1 0 b 1_0", "the relevance must be an integer"),
        (read_qrels, "1 0 a 1", "1 0 b 99999999999", "document 'b' for query '1' must be -214748"),
        (read_qrels, "1 0 a 1", "1 0 a 0", "document 'a' of query '1' was judged 1 before, now 0"),
        (read_qrels, HEADER, "1\ta", "three tab-separated fields (query document relevance), has"),
        (read_qrels, HEADER, "1\t\t1", "an id is empty"),
        (read_qrels, HEADER, "1\ta\tx", "the relevance must be an integer, not 'x'"),
        (read_run, "1 Q0 a 1 2.5 t", "1 Q0 a 2 1 t", "query '1' has document 'a' twice"),
    ],
)
def test_a_malformed_line_is_named(file, read, first, line, problem):
    path = file(f"{first.strip()}\n\n{line}\n")
    with pytest.raises(FormatError) as caught:
        list(read(path))
    assert str(caught.value).startswith(f"{path}:3: ")
    assert problem in str(caught.value)


# ---------------------------------------------------------------------- relevances and scores


@pytest.mark.parametrize("value", [*RELEVANCE, 0, np.int64(2)])
def test_relevance(value):
    assert whole_relevance(value) == value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, "must be a whole number"),
        (1.0, "must be a whole number"),
        ("1", "must be a whole number"),
        (None, "must be a whole number"),
        (RELEVANCE[0] - 1, f"must be {RELEVANCE[0]} to {RELEVANCE[1]}"),
        (RELEVANCE[1] + 1, f"must be {RELEVANCE[0]} to {RELEVANCE[1]}"),
    ],
)
def test_wrong_relevance(value, message):
    with pytest.raises(ValueError, match=message):
        whole_relevance(value)


@given(st.dictionaries(st.text(max_size=3), st.floats(-3e38, 3e38), max_size=12))
def test_scores_fall_strictly(scores):
    falling = strictly_falling(scores)
    rounded = [single_precision(score, "") for score in falling.values()]
    assert falling.keys() == scores.keys()
    assert all(one > other for one, other in pairwise(rounded))
    assert [*strictly_falling(falling).items()] == [*falling.items()]
    given_order = [single_precision(scores[document], "") for document in falling]
    assert given_order == sorted(given_order, reverse=True)


def test_ties_become_the_next_lower_number():
    falling = strictly_falling({"a": 0.0, "b": 0.0, "c": 1.0, "d": 1.0})
    assert falling == {"c": 1.0, "d": 1 - 2**-24, "a": 0.0, "b": -(2**-149)}
