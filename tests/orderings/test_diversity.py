"""Diverse orderings: against a transcription of MMR, near-duplicates, caps; with the model."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import InOrder
from secondpass import Candidate, ConfigurationError, Reranker
from secondpass.asking.dry_run import dry_ledger, dry_run
from secondpass.effects import Call
from secondpass.limits import Limits
from secondpass.orderings.diversity import Diverse, TextVectors
from secondpass.ranking.ordering import to_ordering
from secondpass.scorers.embedded import EmbeddedScorer
from secondpass.scorers.embedding.encoder import DIMENSIONS
from secondpass.scorers.embedding.minilm import MODEL_NAME
from word_forms import DIFFERENT_WORDS, WORD_FORMS


def ranked(texts, **members):
    """Items in this order."""
    found = [
        Candidate(text, metadata={name: values[at] for name, values in members.items()})
        for at, text in enumerate(texts)
    ]
    return Reranker(InOrder([-float(at) for at in range(len(texts))])).rerank("q", found).items


def positions(items):
    return [item.position for item in items]


def features(text):
    words = text.split()
    return {*words, *pairwise(words)}


def overlap(one, other):
    one, other = features(one), features(other)
    return len(one & other) / len(one | other) if one | other else 0.0


def marginal(texts, relevance, chosen, i):
    """The definition of Carbonell and Goldstein; each item is as much worse than the one before."""
    last = max(1, len(texts) - 1)
    known = max((overlap(texts[i], texts[j]) for j in chosen), default=0.0)
    return relevance * (last - i) / last - (1 - relevance) * known


words = st.sampled_from(["red", "green", "blue", "cat", "dog", "bird"])
texts = st.lists(st.lists(words, min_size=1, max_size=6).map(" ".join), max_size=12)


@given(texts, st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
def test_order_is_that_of_maximal_marginal_relevance(texts, relevance):
    order = Diverse(relevance=relevance, duplicate=None)(ranked(texts))
    found = positions(order)
    assert sorted(found) == list(range(len(texts)))
    for at in range(len(found)):
        values = [marginal(texts, relevance, found[:at], i) for i in found[at:]]
        assert values[0] >= max(values) - 1e-12  # equal but for rounding is as good


@given(
    texts,
    st.floats(0, 1),
    st.one_of(st.none(), st.floats(0.1, 1)),
    st.integers(1, 3),
    st.integers(1, 14),
    st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", 1, True, []])), min_size=12),
)
def test_nothing_is_lost_and_scores_stay(texts, relevance, duplicate, at_most, window, sites):
    cap = {"field": "site", "at_most": at_most}
    found = [Candidate(text, metadata={"site": sites[at]}) for at, text in enumerate(texts)]
    order = Diverse(relevance=relevance, duplicate=duplicate, cap=cap, window=window)
    reranker = Reranker(InOrder([-float(at) for at in range(12)]), order=order)
    ranking = reranker.rerank("q", found)
    assert sorted(ranking.order) == list(range(len(texts)))
    assert ranking.report.issues == ()
    assert all(item.final_score == -float(item.position) for item in ranking)
    assert list(ranking.order[window:]) == list(range(window, len(texts)))


def test_near_duplicates_follow_behind_in_their_order():
    long = "the quick brown fox jumps over the lazy dog and runs away from it at once"
    texts = [long, long.replace("quick", "swift"), "a cat", long, "a bird", long.upper()]
    assert positions(Diverse(relevance=1.0)(ranked(texts))) == [0, 2, 4, 1, 3, 5]
    assert positions(Diverse(relevance=1.0, duplicate=1.0)(ranked(texts))) == [0, 1, 2, 4, 3, 5]
    assert positions(Diverse(relevance=1.0, duplicate=None)(ranked(texts))) == list(range(6))


@pytest.mark.parametrize(
    ("texts", "order"),
    [
        *((forms, [0, 2, 1]) for forms in WORD_FORMS.values()),
        *((forms, [0, 1, 2]) for forms in DIFFERENT_WORDS.values()),
    ],
    ids=[*WORD_FORMS, *DIFFERENT_WORDS],
)
def test_another_spelling_is_a_near_duplicate(texts, order):
    diverse = Diverse(relevance=1.0, duplicate=1.0)
    assert positions(diverse(ranked([*texts, "something else"]))) == order


def test_scores_are_the_relevance():
    texts = ["cats purr", "cats purr softly", "dogs bark"]
    diverse = Diverse(relevance=0.6, duplicate=None)
    for scores, order in (([9.0, 8.0, 1.0], (0, 1, 2)), ([9.0, 2.0, 1.0], (0, 2, 1))):
        assert Reranker(InOrder(scores), order=diverse).rerank("q", texts).order == order


@pytest.mark.parametrize("scores", [[9.0, None, None], [1.0, 1.0, 1.0], [1e308, -1e308, -1.1e308]])
def test_scores_that_cannot_be_compared(scores):
    reranker = Reranker(InOrder(scores), order=Diverse(relevance=0.6, duplicate=None))
    ranking = reranker.rerank("q", ["cats purr", "cats purr", "dogs bark"])
    assert ranking.order == (0, 2, 1)


def test_configuration():
    order = {"type": "diverse", "relevance": 0.5, "cap": {"field": "site", "at_most": 2}}
    reranker = Reranker.from_config({"method": "lexical", "order": order, "top_k": 2})
    assert reranker.to_config()["order"] == order
    found = [{"text": "cats purr", "site": "a"}] * 3 + [{"text": "cats", "site": "b"}]
    ranking = reranker.rerank("cats purr", found)
    assert ranking.order == (0, 3)
    assert ranking.explain(position=3).order == "diverse"
    assert to_ordering("diverse") == Diverse()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"relevance": 1.1}, "relevance"),
        ({"duplicate": 0}, "duplicate"),
        ({"similarity": "vibes"}, "similarity"),
        ({"cap": {"field": "site"}}, "cap.at_most: is required"),
        ({"cap": {"field": "site", "at_most": 0}}, "cap.at_most"),
        ({"window": 0}, "window"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        Diverse(**settings)


# ---------------------------------------------------------------------- the embedding model

LIKE = [
    "A cat sat on the mat.",
    "On the rug there was a kitten.",
    "Interest rates rose last week.",
    "The feline was lying on a carpet.",
]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_embedded_similarity(asynchronous):
    pytest.importorskip("tokenizers")
    reranker = Reranker(
        InOrder([4.0, 3.0, 2.0, 1.0]), order=Diverse(relevance=0.5, similarity="embedded")
    )
    if asynchronous:
        ranking = asyncio.run(reranker.arerank("q", LIKE))
    else:
        ranking = reranker.rerank("q", LIKE)
    assert ranking.order[:2] == (0, 2)
    assert ranking.report.issues == ()
    assert ranking.report.usage.calls == 2
    assert [engine.method for engine in ranking.report.engines] == [MODEL_NAME]
    direct = Diverse(relevance=0.5, similarity="embedded")(ranked(LIKE))
    assert positions(direct) == list(ranking.order)


def test_vectors_have_length_one():
    np = pytest.importorskip("numpy")
    pytest.importorskip("tokenizers")
    vectors = np.stack(TextVectors(EmbeddedScorer()).score_pairs("", ["A cat.", "\U0001f600", ""]))
    assert vectors.shape == (3, DIMENSIONS)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1.0, 0.0, 0.0], abs=1e-5)
    assert TextVectors(EmbeddedScorer()).score_pairs("", []) == []


def test_dry_run_counts_the_passages():
    pytest.importorskip("tokenizers")
    order = Diverse(similarity="embedded", window=3)
    (expected,) = dry_run(order.effects(ranked(LIKE), Call()), dry_ledger(Limits())).uses
    assert (expected.model, expected.calls, expected.pairs) == (MODEL_NAME, 0, 3)


class Failing:
    def score_pairs(self, query, documents):
        raise RuntimeError("text of a passage")


def test_model_that_fails_leaves_the_order():
    pytest.importorskip("tokenizers")
    order = Diverse(similarity="embedded")
    vars(order)["_encoder"] = Failing()
    ranking = Reranker(InOrder([3.0, 2.0, 1.0]), order=order, log_level="debug").rerank(
        "q", ["a", "a", "b"]
    )
    assert ranking.order == (0, 1, 2)
    (issue,) = ranking.report.issues
    message = (
        "the ordering failed: the scorer raised RuntimeError; with strict, the exception is raised"
    )
    assert (issue.code, issue.message) == ("order_failed", message)


def test_model_is_loaded_and_released_with_the_reranker():
    ordering = Diverse(similarity="embedded")
    for settings in ({"order": ordering}, {"orders": {"diverse": ordering, "plain": None}}):
        with_model = Reranker(InOrder([1.0, 0.5]), **settings)
        with_model.warm_up()
        assert ordering._encoder.engine is not None
        with_model.close()
        assert ordering._encoder.engine is None
        assert with_model.rerank("q", ["cats", "dogs"], order=ordering).report.issues == ()
        ordering.close()


def test_ordering_that_cannot_be_loaded_leaves_the_method_usable(caplog):
    class Broken:
        def __call__(self, items):
            return items

        def warm_up(self):
            raise RuntimeError("passage text")

    Reranker(InOrder([1.0, 0.5]), order=Broken()).warm_up()
    assert caplog.messages == ["warming up an ordering failed: RuntimeError"]
