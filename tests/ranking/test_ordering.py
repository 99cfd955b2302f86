import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from fakes import ByTable
from secondpass import Candidate, Reranker
from secondpass.ranking.ordering import LostInTheMiddle, Tiers

LEARN = Tiers(
    field="difficulty",
    tiers=["introductory", "intermediate", "advanced"],
    default="intermediate",
    window=20,
)


def ranked(levels):
    """A ranking whose relevance order is that of the list."""
    given = [
        Candidate(f"{at:03}", metadata={} if level is None else {"difficulty": level})
        for at, level in enumerate(levels)
    ]
    scores = {one.text: -float(at) for at, one in enumerate(given)}
    return Reranker(ByTable(scores), depth=None).rerank("q", given).items


def test_tiers_as_the_reference_system_orders_for_learners():
    levels = ["advanced", None, "introductory", "unknown", "intermediate", "introductory", 3, []]
    order = [item.position for item in LEARN(ranked(levels))]
    assert order == [2, 5, 1, 3, 4, 6, 7, 0]


def test_items_behind_the_window_stay_put():
    levels = ["advanced"] * 20 + ["introductory"] * 5
    assert [item.position for item in LEARN(ranked(levels))] == list(range(25))
    levels[19] = "introductory"
    assert [item.position for item in LEARN(ranked(levels))] == [19, *range(19), *range(20, 25)]


def test_without_a_default_unknown_tiers_come_last():
    tiers = Tiers(field="difficulty", tiers=["b", "a"])
    assert [item.position for item in tiers(ranked(["x", "a", None, "b"]))] == [3, 1, 0, 2]


def test_tiers_may_be_numbers_and_fields_nested():
    given = [
        Candidate("a", metadata={"at": {"level": 2}}),
        Candidate("b", metadata={"at.level": 1}),
    ]
    reranker = Reranker(ByTable(), order={"type": "tiers", "field": "at.level", "tiers": [1, 2]})
    assert [item.text for item in reranker.rerank("q", given)] == ["b", "a"]


class Textless:
    """A document whose text raises, as that of LlamaIndex's nodes without one."""

    def __init__(self, metadata):
        self.metadata = metadata

    @property
    def text(self):
        raise ValueError


@pytest.mark.parametrize(
    "made",
    [
        lambda level: {"text": "a", "difficulty": level},
        lambda level: {"difficulty": level},
        lambda level: {"text": "a", "metadata": {"difficulty": level}},
        lambda level: Candidate("a", metadata={"difficulty": level}),
        lambda level: Document("a", metadata={"difficulty": level}),
        lambda level: Textless({"difficulty": level}),
    ],
)
def test_tiers_alone_order_whatever_can_be_a_candidate(made):
    found = [made(level) for level in ("advanced", "introductory", "unknown")]
    moved = LEARN(found)
    assert [found.index(item) for item in moved] == [1, 2, 0]
    assert all(item is found[found.index(item)] for item in moved)


@pytest.mark.parametrize(
    ("count", "order"),
    [(0, []), (1, [0]), (2, [0, 1]), (5, [0, 2, 4, 3, 1]), (6, [0, 2, 4, 5, 3, 1])],
)
def test_lost_in_the_middle(count, order):
    assert [item.position for item in LostInTheMiddle()(ranked([None] * count))] == order


@given(st.lists(st.sampled_from(["introductory", "intermediate", "advanced", None]), max_size=30))
def test_within_a_tier_the_relevance_order_stays(levels):
    items = list(LEARN(ranked(levels)))
    assert sorted(item.position for item in items) == list(range(len(levels)))
    for level in set(levels):
        inside = [item.position for item in items[:20] if levels[item.position] == level]
        assert inside == sorted(inside)
