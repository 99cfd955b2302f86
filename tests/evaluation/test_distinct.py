"""Queries with the same text count once, whatever is computed from them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from secondpass import Candidate, InputError
from secondpass_evaluation import calibrate, compare, make_suite, tune
from secondpass_evaluation.distinct import (
    averaged,
    distinct_count,
    grouped,
    merged_qrels,
    repetition_notes,
)
from secondpass_evaluation.report.verdict import verdict

QUERIES = {"a": "Red panda", "b": "cat", "c": " red\tPANDA "}


def suite_of(seed, count, times=1):
    """Queries on which `lexical` moves the relevant passage up or down, each so many times."""
    rng = random.Random(seed)
    queries, qrels, candidates = {}, {}, {}
    for number in range(count):
        place = rng.choice([0, 0, 1, 2])
        texts = [f"word{number} and more" if rng.random() < 0.4 else "none" for _ in range(4)]
        texts[place] = f"word{number} word{number}" if rng.random() < 0.8 else "none"
        items = [Candidate(text, f"{number}-{i}", 1 / (i + 1)) for i, text in enumerate(texts)]
        for copy in range(times):
            name = f"{number}.{copy}"
            queries[name] = f"word{number}" if not copy else f"  WORD{number} " + " " * copy
            qrels[name] = {f"{number}-{place}": 1}
            candidates[name] = items
    return make_suite("words", queries, qrels, candidates=candidates)


def test_groups():
    values = {"a": 1.0, "b": 2.0, "c": 4.0}
    assert grouped(values, QUERIES) == {"a": [1.0, 4.0], "b": [2.0]}
    assert averaged(values, QUERIES) == {"a": 2.5, "b": 2.0}
    assert distinct_count(QUERIES) == 2
    assert repetition_notes({"a": "x", "b": "y"}) == []
    (note,) = repetition_notes(QUERIES)
    assert note.startswith("1 query has the same text as another of the 3")
    merged = merged_qrels({"a": {"x": 1}, "b": {"x": 0}, "c": {"x": 2, "y": 0}}, QUERIES)
    assert merged == {"a": {"x": 2, "y": 0}, "b": {"x": 0}, "c": {"x": 2, "y": 0}}


@examples(5)
@given(st.integers(0, 999), st.integers(2, 4))
def test_repeating_every_query_changes_no_difference(seed, times):
    once, more = (compare("lexical", suite_of(seed, 20, n)) for n in (1, times))
    for first, second in zip(once.results, more.results, strict=True):
        assert second.evaluation.mean == pytest.approx(first.evaluation.mean)
        for measure, difference in first.differences.items():
            other = second.differences[measure]
            for name in ("queries", "mean", "low", "high", "p", "wins", "ties", "losses"):
                assert getattr(other, name) == pytest.approx(getattr(difference, name)), name
    assert len(more.notes) == len(once.notes) + 1


@examples(3)
@given(st.integers(0, 999), st.integers(2, 3))
def test_repeating_every_query_changes_no_choice(seed, times):
    once, more = (tune(suite_of(seed, 30, n), "lexical") for n in (1, times))
    assert (more.adopted, more.config, more.queries) == (once.adopted, once.config, once.queries)
    assert more.baseline == pytest.approx(once.baseline)
    first, second = once["lexical"].held, more["lexical"].held
    for name in ("mean", "low", "high", "p", "changed"):
        assert getattr(second, name) == pytest.approx(getattr(first, name)), name


@examples(5)
@given(st.integers(0, 999), st.integers(2, 4), st.sampled_from(["query", "document"]))
def test_repeating_every_query_changes_no_threshold(seed, times, per):
    once, more = (
        calibrate("lexical", suite_of(seed, 30, n), keep=0.8, per=per) for n in (1, times)
    )
    assert more.floor == once.floor
    assert (more.queries, more.candidates, more.found_empty) == (
        once.queries,
        once.candidates,
        once.found_empty,
    )
    assert more.relevant_kept == pytest.approx(once.relevant_kept)


def test_copies_of_one_query_are_no_evidence():
    suite = suite_of(1, 1, 40)
    found = compare("lexical", suite)
    assert verdict(found).answer.startswith("1 query is too few to say")
    with pytest.raises(InputError, match="has 1 different judged query; tuning needs 30"):
        tune(suite, "lexical")
    with pytest.raises(InputError, match=r"takes at least 9 queries .*; there are 1"):
        calibrate("lexical", suite)
