"""The tools, called by the SDK's own client in memory."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import Client

from fakes import Answering, ByTable, raising
from secondpass import Reranker
from secondpass.errors import ConfigurationError
from secondpass_server.mcp.tools import ToolLimits, create_server

DOCUMENTS: list[Any] = [
    "Trains run on rails.",
    {"text": "Red apples grow on trees.", "id": "a", "metadata": {"title": "Apples"}},
    "Pears are green.",
]


def failing(**settings):
    return Reranker(Answering(raising(RuntimeError("secret"))), **settings)


def with_client(work, limits=None, **rerankers):
    """The result of a coroutine function of the client of a server."""

    async def called():
        server = create_server(rerankers or {"words": Reranker("lexical")}, limits)
        async with asyncio.timeout(60), Client(server) as client:
            return await work(client)

    return asyncio.run(called())


def call(tool: str, arguments: dict[str, Any], limits=None, **rerankers):
    """The result of a tool."""
    return with_client(lambda client: client.call_tool(tool, arguments), limits, **rerankers)


def asked(**more: Any) -> dict[str, Any]:
    return {"query": "red apples", "documents": DOCUMENTS, **more}


def message(result) -> str:
    assert result.is_error
    return result.content[0].text


def test_rerank():
    found = call("rerank", asked()).structured_content
    assert (found["reranked"], found["status"], found["why_not"]) == (True, "ok", [])
    assert sorted(item["index"] for item in found["results"]) == [0, 1, 2]
    best = found["results"][0]
    assert (best["index"], best["id"], best["rank"]) == (1, "a", 1)
    assert (best["status"], best["span"], best["text"]) == ("scored", None, None)


def test_top_k_and_texts():
    found = call("rerank", asked(top_k=1, include_text=True)).structured_content
    assert [item["text"] for item in found["results"]] == ["Red apples grow on trees."]
    assert found["left_out"] == {"top_k": [0, 2]}


def test_a_result_has_all_numbers_of_the_document():
    recent = {"type": "value", "field": "title", "values": {"Apples": 1}, "weight": 0.5}
    reranker = Reranker("lexical", terms=[recent], probabilities={"intercept": 0, "slope": 1})
    found = call("rerank", asked(include_text=True), words=reranker).structured_content
    best = found["results"][0]
    item = reranker.rerank("red apples", DOCUMENTS)[0]
    assert (best["terms"], best["probability"]) == (item.terms, item.probability)
    assert (best["score"], best["rerank_score"]) == (item.final_score, item.rerank_score)
    assert best["stage_scores"] == []
    assert best["text"] == item.text


@pytest.mark.parametrize("top_k", [2.0, "2"])
def test_a_whole_number_may_be_written_in_other_ways(top_k):
    assert len(call("rerank", asked(top_k=top_k)).structured_content["results"]) == 2


def test_a_large_packing_does_not_take_long_for_each_passage():
    documents = [f"{number:06d}" for number in range(1000)]
    found = call("pack", {"query": "apples", "documents": documents, "tokens": 10**400})
    assert len(found.structured_content["sources"]) == 1000


def test_what_stands_beyond_the_depth_is_named():
    shallow = Reranker("lexical", depth=2)
    found = call("rerank", asked(), words=shallow).structured_content
    assert (found["reranked"], found["status"]) == (True, "ok")
    assert found["why_not"] == ["beyond_depth: 2 of 3 scored (depth 2)"]
    assert [item["status"] for item in found["results"]] == ["scored", "scored", "tail"]


FAILED = "scorer_raised: concerns all documents; the log of the server has the message"


@pytest.mark.parametrize(
    ("reranker", "documents", "outcome", "why_not"),
    [
        (failing(), DOCUMENTS, (False, "unchanged"), FAILED),
        (failing(strict=True), DOCUMENTS, (False, "unchanged"), FAILED),
        (
            Reranker("lexical", when={"words": {"below": 1}}),
            DOCUMENTS,
            (False, "ok"),
            "skipped by `when`: words 2 is not below 1",
        ),
        (Reranker("lexical"), [], (False, "ok"), "there was nothing to put into another order"),
    ],
    ids=["failed", "strict", "skipped", "no document"],
)
def test_what_was_not_reranked_is_told_and_not_lost(reranker, documents, outcome, why_not):
    found = call("rerank", asked(documents=documents), model=reranker).structured_content
    assert (found["reranked"], found["status"]) == outcome
    assert (found["method"], found["why_not"]) == (None, [why_not])
    assert [item["index"] for item in found["results"]] == [*range(len(documents))]


def test_a_document_without_a_visible_character_is_returned_last():
    found = call("rerank", asked(documents=[" \u200b", *DOCUMENTS])).structured_content
    last = found["results"][-1]
    assert (last["index"], last["status"], last["rerank_score"]) == (0, "unjudged", None)
    assert (found["status"], found["left_out"]) == ("partial", {})
    assert [reason.partition(":")[0] for reason in found["why_not"]] == ["no_text"]


def test_why_a_ranking_is_degraded():
    found = call("rerank", asked(), model=failing(fallback=["lexical"])).structured_content
    assert (found["reranked"], found["status"], found["method"]) == (False, "degraded", "lexical")
    assert (found["degraded_by"], found["why_not"]) == (["fallback"], [FAILED])


def test_messages_of_issues():
    limits = ToolLimits(issue_messages=True)
    found = call("rerank", asked(), limits, model=failing()).structured_content
    (why_not,) = found["why_not"]
    assert "RuntimeError" in why_not
    assert "secret" not in str(found)


def test_explain():
    found = call("explain", asked(index=1)).structured_content
    assert found["explanation"].startswith("'a': rank 1, of 3 candidates")
    assert found["details"]["position"] == 1


def test_pack():
    found = call("pack", asked(tokens=17)).structured_content
    assert found["text"] == "[1] Apples\nRed apples grow on trees."
    (source,) = found["sources"]
    assert found["text"][source["start"] : source["stop"]] == "Red apples grow on trees."
    assert (source["index"], source["metadata"]) == (1, {"title": "Apples"})
    assert source["spans"] == [[0, 25]]
    assert found["left_out"] == {"tokens": [0, 2]}


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("rerank", asked(query=" "), "query: must not be empty"),
        ("rerank", asked(query="x" * 101), "query: has more than 100 characters"),
        ("rerank", asked(instruction="x" * 101), "instruction: has more than 100"),
        ("rerank", asked(documents=["x"] * 5), "documents: there are more than 4"),
        ("rerank", asked(documents=["x", "y" * 51]), r"documents[1]: has more than 50"),
        ("rerank", asked(model="word"), "model: there is no such reranker; did you mean 'words'?"),
        ("rerank", asked(top_k=0), "top_k: must be greater than or equal to 1"),
        ("rerank", asked(top_k="x"), "top_k: must be a whole number"),
        ("rerank", asked(documents="x"), "rerank: documents: must be a list"),
        (
            "rerank",
            asked(documents=[3]),
            "[0]: must be a string, or an object with 'text'",
        ),
        ("rerank", asked(documents=[{"id": "x"}]), "rerank: documents[0].text: is required"),
        ("rerank", asked(top_k=True), "top_k: must be a whole number"),
        ("rerank", asked(top_n=3), "rerank: top_n: is unknown; did you mean 'top_k'?"),
        ("pack", asked(tokens=5, budget=3), "budget: is unknown; known are: "),
        ("pack", asked(tokens=True), "tokens: must be a whole number"),
        ("explain", asked(index=False), "index: must be a whole number"),
        ("rerank", asked(documents=[{"text": "x", "titel": "y"}]), "[0].titel: is unknown"),
        ("explain", asked(), "explain: index: is required"),
        ("explain", asked(index=3), "index: must be lower than 3, the number of documents"),
        ("pack", asked(tokens=0), "tokens: must be greater than or equal to 1"),
        ("pack", asked(tokens=5, order="worst"), "order: must be 'best', 'document' or"),
    ],
)
def test_wrong_calls(tool, arguments, expected):
    limits = ToolLimits(documents=4, characters=50, query_characters=100)
    told = message(call(tool, arguments, limits))
    assert expected in told
    assert not [word for word in ("pydantic", "Arguments", "parse", "\n") if word in told]


@pytest.mark.parametrize(
    "arguments",
    [
        asked(top_k="wombats"),
        asked(query=["wombats"]),
        *(
            asked(documents=[{"text": "wombats", **more}])
            for more in ({"title": "b"}, {"id": True})
        ),
        *(asked(documents=[document]) for document in ({}, {"body": "wombats"}, {"text": 1})),
    ],
)
def test_errors_do_not_quote_what_was_sent(arguments):
    assert "wombats" not in message(call("rerank", arguments))


def test_models_are_chosen_by_name():
    rerankers = {"broken": failing(), "words": Reranker("lexical")}
    assert call("rerank", asked(), **rerankers).structured_content["reranked"] is False
    assert call("rerank", asked(model="words"), **rerankers).structured_content["reranked"] is True


def test_a_server_needs_a_reranker():
    with pytest.raises(ConfigurationError, match="at least one reranker"):
        create_server({})


def test_tools_say_what_they_take():
    tools = {tool.name: tool for tool in with_client(lambda client: client.list_tools()).tools}
    assert set(tools) == {"rerank", "explain", "pack"}
    for tool in tools.values():
        assert tool.output_schema is not None
        assert tool.annotations.read_only_hint is True
        described = tool.input_schema["properties"].values()
        assert all("description" in property_ for property_ in described), tool.name
        assert tool.input_schema["additionalProperties"] is False


class Closing(ByTable):
    """Notes that it is closed, and raises."""

    closed = 0

    def close(self):
        self.closed += 1
        raise OSError("a passage")


def test_every_reranker_is_closed_at_the_end():
    scorers = [Closing(), Closing()]

    async def work(client):
        return await client.list_tools()

    with contextlib.suppress(Exception):  # the SDK decides what becomes of the error
        with_client(work, **{f"m{n}": Reranker(scorer) for n, scorer in enumerate(scorers)})
    assert [scorer.closed for scorer in scorers] == [1, 1]
