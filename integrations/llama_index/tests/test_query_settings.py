"""Settings of one query inside engines, ``order``, how much to retrieve, and wrong nodes."""

from __future__ import annotations

import asyncio
import copy
import json
import re
import threading
from typing import Any

import pytest
from llama_index.core import QueryBundle
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from contract import says
from contract_llama_index import ADAPTER
from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_objects import ids
from secondpass import ConfigurationError, InputError
from secondpass.ranking.ordering import Tiers

QUERY = "wombats"
LEVELS = ["hard", "easy", "hard", "easy"]
ORDERS = {
    "learn": {"type": "tiers", "field": "level", "tiers": ["easy", "hard"]},
    "expert": {"type": "tiers", "field": "level", "tiers": ["hard", "easy"]},
}
CONFIG = {"method": "lexical", "orders": ORDERS}


def nodes() -> list[NodeWithScore]:
    """Four nodes, of which the first has most of the query's word."""
    return [
        NodeWithScore(
            node=TextNode(
                text="wombats " * (4 - index) + "dig", id_=f"n{index}", metadata={"level": level}
            ),
            score=1 - index / 10,
        )
        for index, level in enumerate(LEVELS)
    ]


class Fixed(BaseRetriever):
    """Finds the nodes, in order, whatever the query."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return nodes()


def engine_of(rerank: SecondPassRerank) -> RetrieverQueryEngine:
    return RetrieverQueryEngine(
        Fixed(), get_response_synthesizer(llm=MockLLM(max_tokens=2)), [rerank]
    )


# ---------------------------------------------------------------------- order


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (None, ["n0", "n1", "n2", "n3"]),
        ("none", ["n0", "n1", "n2", "n3"]),
        ("learn", ["n1", "n3", "n0", "n2"]),
        (ORDERS["learn"], ["n1", "n3", "n0", "n2"]),
        ("lost_in_the_middle", ["n0", "n2", "n3", "n1"]),
        (lambda items: items[::-1], ["n3", "n2", "n1", "n0"]),
        (Tiers("level", ["easy"]), ["n1", "n3", "n0", "n2"]),
    ],
)
def test_an_order_of_the_postprocessor(order: Any, expected: list[str]) -> None:
    rerank = SecondPassRerank(CONFIG, order=order)
    response = engine_of(rerank).query(QUERY)
    assert ids(response.source_nodes) == expected
    scores = [node.score or 0.0 for node in response.source_nodes]
    assert scores == sorted(scores, reverse=True)
    assert ids(rerank.rerank_nodes(nodes(), QUERY, order="none")[0]) == ["n0", "n1", "n2", "n3"]
    rerank.order = "expert"
    assert ids(rerank.postprocess_nodes(nodes(), query_str=QUERY)) == ["n0", "n2", "n1", "n3"]


@pytest.mark.parametrize("order", ["leran", {"type": "tires"}, 7, Tiers])
def test_an_order_that_there_is_not(order: Any) -> None:
    with pytest.raises(ConfigurationError, match="order"):
        SecondPassRerank(CONFIG, order=order)
    rerank = SecondPassRerank(CONFIG)
    with pytest.raises(ConfigurationError, match="order"):
        rerank.order = order
    with pytest.raises(ConfigurationError, match="order"):
        rerank.model_copy(update={"order": order})
    with pytest.raises(InputError, match=r"^order[.:]"):
        rerank.query_settings(order=order)
    assert rerank.order is None


# ---------------------------------------------------------------------- settings of a query


def by_model() -> tuple[SecondPassRerank, dict[str, str]]:
    """A postprocessor whose model keeps the order, and the context that each query came with."""
    seen: dict[str, str] = {}

    def answer(messages: list[dict[str, Any]]) -> dict[str, Any]:
        prompt = messages[-1]["content"].rpartition("user: ")[2]
        query, *_ = re.findall(r"<query>(.*?)</query>", prompt)
        context = re.findall(r"<context>(.*?)</context>", prompt, re.DOTALL)
        seen[query] = context[0] if context else ""
        return says(json.dumps({"ranking": re.findall(r'<doc id="(.*?)">', prompt)}))

    llm = ADAPTER.llm("Completing", answer)
    return SecondPassRerank({"method": "listwise", "orders": ORDERS}, llm=llm), seen


def asked(engine: Any, query: str) -> list[str]:
    return ids(engine.query(query).source_nodes)


async def aasked(engine: Any, query: str) -> list[str]:
    return ids((await engine.aquery(query)).source_nodes)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_settings_of_a_query_in_an_engine(asynchronous: bool) -> None:
    rerank, seen = by_model()
    engine = engine_of(rerank)

    def ask(query: str) -> list[str]:
        return asyncio.run(aasked(engine, query)) if asynchronous else asked(engine, query)

    with rerank.query_settings(order="learn", context="the burrow", top_n=3):
        assert ask("one") == ["n1", "n3", "n0"]
        with rerank.query_settings(order="expert"):
            assert ask("two") == ["n0", "n2", "n1"]
        assert ids(rerank.rerank_nodes(nodes(), "three", order="none", top_n=1)[0]) == ["n0"]
        rerank.rerank_nodes(nodes(), "four", context="its own")
    assert ask("five") == ["n0", "n1", "n2", "n3"]
    assert seen == {
        "one": "the burrow",
        "two": "the burrow",
        "three": "the burrow",
        "four": "its own",
        "five": "",
    }


@pytest.mark.parametrize("threads", [False, True])
def test_queries_side_by_side_have_their_own_settings(threads: bool) -> None:
    rerank, seen = by_model()
    engine = engine_of(rerank)
    expected = {"learn": ["n1", "n3", "n0", "n2"], "expert": ["n0", "n2", "n1", "n3"]}
    results: dict[int, list[str]] = {}

    def name(number: int) -> str:
        return ["learn", "expert"][number % 2]

    async def aone(number: int) -> None:
        with rerank.query_settings(order=name(number), context=f"context {number}"):
            await asyncio.sleep(0)
            results[number] = await aasked(engine, f"query {number}")

    def one(number: int) -> None:
        with rerank.query_settings(order=name(number), context=f"context {number}"):
            results[number] = asked(engine, f"query {number}")

    async def all_of_them() -> None:
        await asyncio.gather(*map(aone, range(12)))

    if threads:
        running = [threading.Thread(target=one, args=(number,)) for number in range(12)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    else:
        asyncio.run(all_of_them())
    assert results == {number: expected[name(number)] for number in range(12)}
    assert seen == {f"query {number}": f"context {number}" for number in range(12)}
    assert rerank.order is None


def test_settings_reach_copies() -> None:
    rerank = SecondPassRerank(CONFIG)
    copies = [copy.copy(rerank), copy.deepcopy(rerank), rerank.model_copy(update={"top_n": 3})]
    with rerank.query_settings(order="learn", top_n=2):
        for copied in copies:
            assert ids(copied.postprocess_nodes(nodes(), query_str=QUERY)) == ["n1", "n3"]
    with copies[1].query_settings(top_n=1):
        assert ids(rerank.postprocess_nodes(nodes(), query_str=QUERY)) == ["n0"]
    assert len(rerank.postprocess_nodes(nodes(), query_str=QUERY)) == 4


@pytest.mark.parametrize("top_n", [0, True, "5", 1.5])
def test_wrong_settings_are_refused_at_the_block(top_n: Any) -> None:
    with pytest.raises(InputError, match=r"^top_n: "):
        SecondPassRerank(CONFIG).query_settings(top_n=top_n)
