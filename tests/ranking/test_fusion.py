import random
import warnings
from collections import Counter
from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass import Candidate, InputError, Reranker, fuse


def listed(names, scores=None, **metadata):
    scores = scores or [None] * len(names)
    return [
        Candidate(f"text of {name}", id=name, score=score, metadata=dict(metadata))
        for name, score in zip(names, scores, strict=True)
    ]


def scores_of(candidates):
    return [(candidate.id, candidate.score) for candidate in candidates]


BY_RANKS = {"one": "abc", "two": "ca", "three": ""}


@pytest.mark.parametrize(
    ("lists", "settings", "expected"),
    [
        (BY_RANKS, {}, [("a", (1 + 61 / 62) / 3), ("c", (61 / 63 + 1) / 3), ("b", 61 / 62 / 3)]),
        (
            BY_RANKS,
            {"rrf_k": 0},
            [("a", (1 + 1 / 2) / 3), ("c", (1 / 3 + 1) / 3), ("b", 1 / 2 / 3)],
        ),
        (
            {"one": "ab", "two": "b"},
            {"weights": {"two": 3}, "rrf_k": 0},
            [("b", (1 / 2 + 3) / 4), ("a", 1 / 4)],
        ),
        ({"one": "ab", "two": None}, {"rrf_k": 0, "weights": {"two": 9}}, [("a", 1), ("b", 1 / 2)]),
        ({"one": "ab", "two": "ba"}, {}, [("a", (1 + 61 / 62) / 2), ("b", (61 / 62 + 1) / 2)]),
        ({"one": "ba", "two": "ab"}, {}, [("b", (1 + 61 / 62) / 2), ("a", (61 / 62 + 1) / 2)]),
        ({"one": "aba"}, {}, [("a", 1), ("b", 61 / 62)]),
        ({"one": "aab"}, {}, [("a", 1), ("b", 61 / 62)]),
        (
            {"one": "ab", "two": "c"},
            {"weights": {"one": 0, "two": 0}},
            [("a", 0), ("b", 0), ("c", 0)],
        ),
        ({"one": None}, {}, []),
        ({}, {}, []),
    ],
    ids=[
        "ranks",
        "rrf_k",
        "weights",
        "a list that was not to be had",
        "ties, the first list first",
        "ties, in another order",
        "repeated in a list",
        "repeated candidates have no rank",
        "no weight",
        "only lists that were not to be had",
        "no lists",
    ],
)
def test_by_ranks(lists, settings, expected):
    lists = {name: None if ids is None else listed(ids) for name, ids in lists.items()}
    fused = scores_of(fuse(lists, **settings))
    assert fused == [(name, pytest.approx(score, rel=1e-15)) for name, score in expected]


@pytest.mark.parametrize(
    ("lists", "weights", "expected"),
    [
        (
            {"one": {"a": 5, "b": 4, "c": 1}, "two": {"c": 0.9, "d": 0.1}},
            None,
            {"a": 1 / 2, "b": 3 / 8, "c": 1 / 2, "d": 0},
        ),
        ({"one": {"a": 2, "b": 1}, "two": {"b": 2, "a": 1}}, {"two": 3}, {"b": 3 / 4, "a": 1 / 4}),
        ({"distances": {"a": 0.1, "b": 0.3, "c": 0.4}}, None, {"a": 1, "b": 1 / 2, "c": 0}),
        ({"distances": {"a": 0.1, "b": 0.3}}, None, {"a": 1, "b": 0}),
        ({"distances": {"a": 0.1, "b": 0.3}}, {"distances": 1e308}, {"a": 1, "b": 0}),
        ({"one": {"a": 3, "b": None, "c": 1}}, None, {"a": 1, "b": 0, "c": 0}),
        ({"one": {"a": 7}, "two": {"b": 3, "c": 2}}, None, {"b": 1 / 2, "a": 1 / 4, "c": 0}),
        ({"one": {}, "two": {"a": 2, "b": 1}}, None, {"a": 1 / 2, "b": 0}),
        ({"one": {"a": 1e308, "b": -1e308, "c": 0}}, None, {"a": 1, "c": 1 / 2, "b": 0}),
    ],
    ids=[
        "scores",
        "weights",
        "distances",
        "two distances",
        "huge weight",
        "no score",
        "constant",
        "an empty list",
        "huge",
    ],
)
def test_by_scores(lists, weights, expected):
    named = {name: listed(found, [*found.values()]) for name, found in lists.items()}
    fused = fuse(named, by="scores", weights=weights)
    assert dict(scores_of(fused)) == pytest.approx(expected)
    assert [one.score for one in fused] == sorted((one.score for one in fused), reverse=True)


LATIN_SQUARE = ["abcd", "badc", "cdab", "dcba"]
"""Each document has each rank once."""


@pytest.mark.parametrize("rrf_k", [0, 1, 7, 60])
def test_sums_of_equal_numbers_are_equal(rrf_k):
    for names in permutations("wxyz"):
        lists = {name: listed(ids) for name, ids in zip(names, LATIN_SQUARE, strict=True)}
        assert len({one.score for one in fuse(lists, rrf_k=rrf_k)}) == 1
        weights = dict(zip(names, (0.1, 0.2, 0.3, 0.7), strict=True))
        alike = {name: listed("ab"[weight > 0.25]) for name, weight in weights.items()}
        fused = fuse(alike, weights=weights | {max(weights, key=weights.get): 0})
        assert [one.score for one in fused] == pytest.approx([0.5, 0.5])


def test_weights_of_any_size():
    weights = {"one": 1e308, "two": 1.7e308}
    fused = fuse({"one": listed("ab"), "two": listed("ba")}, weights=weights, rrf_k=0)
    assert scores_of(fused) == [
        ("b", pytest.approx((1.7 + 0.5) / 2.7)),
        ("a", pytest.approx((1 + 0.85) / 2.7)),
    ]


def test_a_document_is_the_union_of_its_candidates():
    lists = {
        "one": [Candidate(None, "a", 9, {"source": "x", "zero": 0})],
        "two": [Candidate("b's"), Candidate("a's", "a", None, {"source": "y", "more": None})],
    }
    first, second = fuse(lists)
    assert (first.text, first.id) == ("a's", "a")
    assert first.metadata == {
        "source": "x",
        "zero": 0,
        "more": None,
        "retrieval_ranks": {"one": 1, "two": 2},
        "retrieval_scores": {"one": 9.0},
    }
    assert second.metadata == {"retrieval_ranks": {"two": 1}, "retrieval_scores": {}}
    assert lists["one"][0].metadata == {"source": "x", "zero": 0}


def test_what_identifies_a_document():
    lists = {
        "one": [{"id": 3, "text": "x"}, "text of a", Candidate(None), Candidate(None)],
        "two": [{"id": "3", "text": "y"}, Candidate("text of a"), Candidate("x"), Candidate(None)],
    }
    lists["three"] = [Candidate("z", 3.0)]
    fused = fuse(lists)
    known = [(one.id, one.text) for one in fused]
    assert known[:2] == [(3, "x"), (None, "text of a")]
    assert Counter(known[2:]) == {(None, "x"): 1, (None, None): 3}


def test_agreement_and_render_read_what_a_fused_candidate_has():
    fields = ["retrieval_ranks.bm25", "retrieval_ranks.vectors"]
    agreement = {"fields": fields, "ranks": True, "below": 1, "first": 2}
    reranker = Reranker(
        "lexical", when={"agreement": agreement}, render={"fields": ["text", f"{fields[0]}?"]}
    )
    for vectors, skipped in (["ba", True], ["cd", False]):
        lists = {"bm25": listed("ab"), "vectors": listed(vectors)}
        ranking = reranker.rerank("text of 2", fuse(lists))
        assert (ranking.report.skipped is not None) is skipped
        assert ranking.report.issues == ()


class Unreadable:
    def __str__(self):
        raise KeyError("a passage")


def fuse_scores(*scores):
    return fuse({"one": [Candidate(str(i), i, one) for i, one in enumerate(scores)]}, by="scores")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fuse({"one": [], "two": "text"}), r"lists\['two'\]: give a sequence"),
        (lambda: fuse([["a"]]), "lists: give a mapping of lists by name, not a list"),
        (lambda: fuse({1: ["a"]}), "lists: names must be strings"),
        (lambda: fuse({"one": ["a"]}, rrf_k=-1), "rrf_k: must be 0 or more, not -1"),
        (lambda: fuse({"one": ["a"]}, rrf_k="a"), "rrf_k: give a finite number, not 'a'"),
        (lambda: fuse({}, rrf_k=float("inf")), "rrf_k: give a finite number"),
        (lambda: fuse({}, rrf_k=10**999), "rrf_k: is too large for a float"),
        (lambda: fuse({}, by="score"), "by: must be ranks or scores, not 'score'"),
        (lambda: fuse({"one": []}, weights={"on": 1}), "weights: no list is named 'on'; did you"),
        (lambda: fuse({"one": []}, weights={"one": -1}), r"weights\['one'\]: must be 0 or more"),
        (lambda: fuse({"one": ["a"]}, by="scores"), r"lists\['one'\]: no candidate has a score"),
        (
            lambda: fuse_scores(0.5, "0.1", None),
            r"lists\['one'\]: 1 of 3 scores cannot be read.*a str",
        ),
        (
            lambda: fuse({"one": ["a", Candidate("b", Unreadable())]}),
            r"^lists\['one'\]\[1\]\.id: cannot be read \(KeyError\)$",
        ),
        (lambda: fuse_scores(0.5, float("nan")), "1 of 2 scores cannot be read.*not nan"),
        (
            lambda: fuse_scores("0.5"),
            "1 of 1 score cannot be read.*; convert them, or fuse by='ranks'",
        ),
    ],
)
def test_wrong_input(call, message):
    with pytest.raises(InputError, match=message):
        call()


names = st.lists(st.sampled_from("abcdefgh"), unique=True)
numbers = st.floats(0, 1e6) | st.sampled_from([0.1, 0.2, 0.3, 3])


@given(
    lists=st.dictionaries(st.sampled_from("xyz"), names), data=st.data(), by_scores=st.booleans()
)
def test_scores_lie_in_0_to_1_and_nothing_is_lost(lists, data, by_scores):
    weights = {name: data.draw(numbers) for name in lists}
    scores = {
        name: sorted(data.draw(st.lists(numbers, min_size=len(ids), max_size=len(ids))))[::-1]
        for name, ids in lists.items()
    }
    fused = fuse(
        {name: listed(ids, scores[name]) for name, ids in lists.items()},
        weights=weights,
        by="scores" if by_scores else "ranks",
        rrf_k=data.draw(numbers),
    )
    assert sorted(one.id for one in fused) == sorted(
        {name for ids in lists.values() for name in ids}
    )
    order = [one.score for one in fused]
    assert order == sorted(order, reverse=True)
    assert all(0 <= score <= 1 for score in order)


# ---------------------------------------------------------------------- ranx


def generated(count):
    """Queries, each with three lists of documents with falling scores, and with weights."""
    rng = random.Random(5)
    pool = [f"d{number}" for number in range(40)]
    for number in range(count):
        lists = {}
        for name in ("one", "two", "three"):
            ids = rng.sample(pool, rng.randint(1, 40))
            scores = sorted(rng.choice([rng.gauss(0, 9), rng.randint(0, 5)]) for _ in ids)[::-1]
            lists[name] = dict(zip(ids, scores, strict=True))
        weights = {name: rng.choice([1, rng.random()]) for name in lists}
        yield f"q{number}", lists, weights


def check(theirs, fused, tolerance=1e-9):
    """Equal scores, and an order that theirs allows."""
    ours = dict(scores_of(fused))
    assert ours == pytest.approx(theirs, rel=0, abs=tolerance)
    order = [theirs[one.id] for one in fused]
    assert all(first >= second - tolerance for first, second in pairwise(order))


def by_published_formulas(lists, weights, rrf_k):
    """Both fused scores of each document, from the formulas as they were published."""
    whole = sum(weights.values())
    ranks, scores = Counter(), Counter()
    for name, found in lists.items():
        low, high = min(found.values()), max(found.values())
        for rank, (document, score) in enumerate(found.items(), 1):
            ranks[document] += weights[name] / (rrf_k + rank) / (whole / (rrf_k + 1))
            unit = (score - low) / (high - low) if high > low else 0.5
            scores[document] += weights[name] / whole * unit
    return ranks, scores


def test_5000_lists_have_the_scores_of_the_published_formulas():
    for number, (_, lists, weights) in enumerate(generated(5_000)):
        candidates = {name: listed(found, [*found.values()]) for name, found in lists.items()}
        rrf_k = (0, 1, 60)[number % 3]
        ranks, scores = by_published_formulas(lists, weights, rrf_k)
        check(ranks, fuse(candidates, weights=weights, rrf_k=rrf_k))
        check(scores, fuse(candidates, weights=weights, by="scores"))


@pytest.mark.long
def test_5000_lists_have_the_scores_of_ranx():
    """ranx gives a list whose scores are all equal 0, as if it had nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages that ranx brings
        ranx = pytest.importorskip("ranx")
        queries = {query: (lists, weights) for query, lists, weights in generated(5_000)}

        def runs(value):
            return [
                ranx.Run(
                    {
                        query: {
                            document: value(rank, score)
                            for rank, (document, score) in enumerate(lists[name].items())
                        }
                        for query, (lists, _) in queries.items()
                    }
                )
                for name in ("one", "two", "three")
            ]

        by_ranks = ranx.fuse(runs(lambda rank, _: float(-rank)), norm=None, method="rrf").to_dict()
        equal = {"weights": (0.5, 0.3, 0.2)}
        by_scores = ranx.fuse(
            runs(lambda _, score: float(score)), norm="min-max", method="wsum", params=equal
        ).to_dict()
    weights = dict(zip(("one", "two", "three"), equal["weights"], strict=True))
    for query, (lists, _) in queries.items():
        candidates = {name: listed(found, [*found.values()]) for name, found in lists.items()}
        highest = 3 / 61
        theirs = {name: score / highest for name, score in by_ranks[query].items()}
        check(theirs, fuse(candidates))
        theirs = Counter(by_scores[query])
        for name, found in lists.items():
            if len({*found.values()}) == 1:
                theirs.update(dict.fromkeys(found, weights[name] / 2))
        check(theirs, fuse(candidates, weights=weights, by="scores"))
