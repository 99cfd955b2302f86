"""How much comes out, in which order, and what one call sets; strict or not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from contract import (
    CANNOT,
    QUERY,
    WAYS,
    Answers,
    Numbers,
    first,
    needs,
    numbered,
    places,
    quiet,
    values,
    way_of,
)
from secondpass import ConfigurationError, Reranker, RerankError

TIERS = {
    "learn": {"type": "tiers", "field": "level", "tiers": ["easy", "hard"]},
    "expert": {"type": "tiers", "field": "level", "tiers": ["hard", "easy"]},
}


def levels(adapter: Any) -> list[Any]:
    """Documents that the scorer ranks d, c, b, a; the first and the third are hard."""
    documents = numbered(adapter, 1, 2, 3, 4)
    for place, document in enumerate(documents):
        adapter.carried(document).metadata["level"] = ("hard", "easy")[place % 2]
    return documents


@needs("options")
@pytest.mark.parametrize(
    ("row", "own", "of_the_call"), [(0, 2, 1), (1, 1, 3), (2, None, 2), (3, 3, 1), (2, 2, None)]
)
def test_top_k_of_a_call_is_for_that_call(
    adapter: Any, row: int, own: int | None, of_the_call: int | None
) -> None:
    way = way_of(adapter, row)
    component = adapter.make({"method": Numbers()}, top_k=own)
    for option in (of_the_call, None):
        options = {} if option is None else {"top_k": option}
        ranked, _ = adapter.run(component, way, QUERY, numbered(adapter, 1, 3, 2), **options)
        assert places(adapter, ranked) == [1, 2, 0][: option or own]
    configured = adapter.make(Reranker(Numbers(), top_k=1))
    ranked, _ = adapter.run(configured, way, QUERY, numbered(adapter, 1, 3, 2))
    assert places(adapter, ranked) == [1]


class Probable(Numbers):
    score_kind = "probability"


def test_depth_leaves_a_tail_and_blended_scores_are_kept_beside_it(adapter: Any, way: str) -> None:
    config = {"method": Probable(), "blend": {"original": 0.5, "normalize": "none"}}
    component = adapter.make(config, depth=2)
    if "score" in CANNOT[adapter.name]:
        component = adapter.make({"method": Numbers()}, depth=2)
    ranked, _ = adapter.run(component, way, QUERY, numbered(adapter, 0.2, 0.9, 0.5, 0.4))
    assert places(adapter, ranked) == [1, 0, 2, 3]
    assert values(adapter, ranked, "rerank_status") == ["scored"] * 2 + ["tail"] * 2
    assert values(adapter, ranked, "rerank_score") == [0.9, 0.2, None, None]
    if "score" not in CANNOT[adapter.name]:
        assert [adapter.carried(one).score for one in ranked] == [1.0, 0.75, 0.5, 0.25]
        finals = values(adapter, ranked, "rerank_final_score")
        assert finals == [pytest.approx(0.825), pytest.approx(0.6), None, None]


@pytest.mark.parametrize(
    ("row", "order", "wanted"),
    [
        (0, "none", [3, 2, 1, 0]),
        (1, "learn", [3, 1, 2, 0]),
        (2, TIERS["expert"], [2, 0, 3, 1]),
        (3, "lost_in_the_middle", [3, 1, 0, 2]),
    ],
)
def test_an_order_of_the_configuration_or_for_one_call(
    adapter: Any, row: int, order: Any, wanted: list[int]
) -> None:
    way = way_of(adapter, row)
    config = {"method": Numbers(), "orders": TIERS}
    own = {} if order == "none" else {"order": TIERS["learn"] if order == "learn" else order}
    configured = adapter.make({**config, **own})
    ranked, _ = adapter.run(configured, way, QUERY, levels(adapter))
    assert places(adapter, ranked) == wanted
    if "options" not in CANNOT[adapter.name]:
        component = adapter.make(config)
        for options, expected in (({"order": order}, wanted), ({}, [3, 2, 1, 0])):
            ranked, _ = adapter.run(component, way, QUERY, levels(adapter), **options)
            assert places(adapter, ranked) == expected
            scores = [adapter.carried(one).score for one in ranked]
            assert scores == sorted(scores, reverse=True)


WRONG = [
    ({"top_k": 0}, r"top_(k|n)"),
    ({"top_k": True}, r"top_(k|n): give a whole number"),
    ({"order": {"type": "tires"}}, "(?s)order.*tiers"),
    ({"instruction": 7}, "instruction: give a string, not 7"),
]


@needs("options")
@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_options_of_a_call_are_named(
    adapter: Any, options: dict[str, Any], message: str
) -> None:
    scorer = Numbers()
    component = adapter.make({"method": scorer, "orders": TIERS})
    for ways in WAYS[adapter.name].values():
        for way in ways:
            if way.startswith("pipeline"):  # which wraps errors
                continue
            for documents in ([], numbered(adapter, 1, 2)):
                with pytest.raises(ValueError, match=message):
                    adapter.run(component, way, QUERY, documents, **options)
    assert scorer.seen == []


# ---------------------------------------------------------------------- what fails

FAILURES: dict[str, object] = {"raises": OSError("gone"), "nothing": None, "long": [1.0] * 4}


@pytest.mark.parametrize(("row", "answer"), [*enumerate(FAILURES.values())], ids=FAILURES)
def test_a_failure_keeps_the_order_or_raises_under_strict(
    adapter: Any, row: int, answer: object
) -> None:
    way = way_of(adapter, row)
    documents = numbered(adapter, 1, 2, 3)
    component = adapter.make(quiet(Answers(answer)))
    ranked, report = adapter.run(component, way, QUERY, documents)
    assert places(adapter, ranked) == [0, 1, 2]
    assert values(adapter, ranked, "rerank_status") == ["unjudged"] * 3
    if report is not None:
        assert report["status"] == "unchanged"
        assert report["issues"]
    strict = adapter.make(quiet(Answers(answer)), strict=True)
    with pytest.raises(Exception, match="strict") as raised:
        adapter.run(strict, way, QUERY, documents)
    error = raised.value.__cause__ if way.startswith("pipeline") else raised.value
    assert isinstance(error, RerankError)
    assert [item.position for item in error.ranking] == [0, 1, 2]


# ---------------------------------------------------------------------- thresholds


@needs("parameters")
def test_ranks_have_no_threshold(adapter: Any) -> None:
    name = adapter.names["floor"]
    for reranker in ("listwise_guided", Reranker.from_preset("listwise_guided")):
        with pytest.raises(ConfigurationError, match=rf"{name}: .*are ranks"):
            adapter.make(reranker, floor=0.5)
    component = adapter.make("listwise_guided")
    with pytest.raises(ConfigurationError, match=rf"{name}: .*use top_k"):
        setattr(component, name, 0.5)


# ---------------------------------------------------------------------- candidates needed


@needs("parameters")
@pytest.mark.parametrize(
    ("reranker", "settings", "top_k", "needed"),
    [
        ({"method": "lexical", "depth": 50}, {"top_k": 80}, None, 80),
        ({"method": "lexical", "depth": None}, {}, 5, None),
        ({"method": "lexical"}, {"depth": 30}, None, 30),
        ("listwise_guided", {}, None, None),
        ("listwise_guided", {"top_k": 5}, 2, 6),
        (Reranker("lexical", depth=30, top_k=40), {}, None, 40),
    ],
)
def test_candidates_needed(
    adapter: Any, reranker: Any, settings: dict[str, Any], top_k: int | None, needed: int | None
) -> None:
    component = adapter.make(reranker, **settings)
    assert component.candidates_needed(top_k) == needed
    for wrong in (0, -1, 1.5, "5", True):
        with pytest.raises(ValueError, match="top_k"):
            component.candidates_needed(wrong)


@needs("life")
def test_models_are_warmed_up_and_closed(adapter: Any) -> None:
    scorer = Numbers()
    component = adapter.make(Reranker(scorer))
    warm_up, awarm_up, close, aclose = adapter.life(component)
    assert scorer.events == []

    async def life() -> None:
        await awarm_up()
        await aclose()

    for act in (lambda: (warm_up(), close()), lambda: asyncio.run(life())):
        scorer.events.clear()
        act()
        assert [event for event, _ in scorer.events] == ["warm_up", "close"]
    # Once more by a ranking, which loads models too.
    adapter.run(component, first(adapter), QUERY, numbered(adapter, 1))
    close()
    assert [event for event, _ in scorer.events][2:] == ["score", "close"]
