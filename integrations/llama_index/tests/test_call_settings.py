"""Settings of one call."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_llms import QUERY, Listening, asking, lengths, nodes_of, scripted


def test_no_nodes_or_no_query_sends_nothing() -> None:
    llm = scripted()
    reranker = asking("graded", llm)
    assert reranker.rerank_nodes([], QUERY)[0] == []
    for nodes in ([], nodes_of()):
        with pytest.raises(ValueError, match="query"):
            reranker.rerank_nodes(nodes, None)
    assert llm._asked == []


def test_settings_of_one_call_are_for_that_call() -> None:
    llm = scripted()
    config = {
        "method": {"type": "graded", "prompt": {"context": None}},
        "orders": {"by_place": {"type": "lost_in_the_middle"}},
        "order": "lost_in_the_middle",
    }
    reranker = SecondPassRerank(config, llm=llm, top_n=4)
    usual = lengths(reranker.rerank_nodes(nodes_of(), QUERY)[0])
    assert (usual[0], usual[-1]) == (9, 7)
    results, report = reranker.rerank_nodes(nodes_of(), QUERY, top_n=2, order="none")
    assert lengths(results) == [9, 7]
    assert report.left_out == {"top_k": (0, 2, 4)}
    named = reranker.rerank_nodes(nodes_of(), QUERY, order="by_place")[0]
    mapping = reranker.rerank_nodes(nodes_of(), QUERY, order={"type": "lost_in_the_middle"})[0]
    assert lengths(named) == lengths(mapping) == usual
    llm._asked.clear()
    asyncio.run(reranker.arerank_nodes(nodes_of(), QUERY, context="the garden of the zoo"))
    assert "the garden of the zoo" in (llm._asked[0][-1].content or "")
    assert lengths(reranker.rerank_nodes(nodes_of(), QUERY)[0]) == usual
    assert "the garden of the zoo" not in (llm._asked[1][-1].content or "")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": "by_plaec"}, "(?s)order.*by_place"),
        ({"order": {"type": "tires"}}, "(?s)order.*tiers"),
        ({"order": 7}, "order"),
        ({"top_n": 0}, "1 or more"),
        ({"instruction": 7}, "instruction: give a string, not 7"),
    ],
)
def test_wrong_settings_of_a_call_are_refused_by_name(
    settings: dict[str, Any], message: str
) -> None:
    llm = scripted()
    config = {"method": "graded", "orders": {"by_place": "lost_in_the_middle"}}
    reranker = SecondPassRerank(config, llm=llm)
    with pytest.raises(ValueError, match=message):
        reranker.rerank_nodes(nodes_of(), QUERY, **settings)
    with pytest.raises(ValueError, match=message):
        asyncio.run(reranker.arerank_nodes(nodes_of(), QUERY, **settings))
    assert llm._asked == []


def test_an_instruction_is_for_one_call(listening: Listening) -> None:
    llm = scripted()
    reranker = asking("graded", llm)
    _, report = reranker.rerank_nodes(nodes_of(), QUERY, instruction="prefer owls")
    asyncio.run(reranker.arerank_nodes(nodes_of(), QUERY, instruction="prefer cats"))
    with reranker.query_settings(instruction="prefer dogs"):
        reranker.postprocess_nodes(nodes_of(), query_str=QUERY)
        with reranker.query_settings(instruction=""):
            reranker.postprocess_nodes(nodes_of(), query_str=QUERY)
    reranker.postprocess_nodes(nodes_of(), query_str=QUERY)
    prompts = [messages[-1].content or "" for messages in llm._asked]
    assert [re.findall("<instruction>(.*)</instruction>", prompt) for prompt in prompts] == [
        ["prefer owls"],
        ["prefer cats"],
        ["prefer dogs"],
        [],
        [],
    ]
    assert report.issues == ()
    assert "prefer" not in str([event.model_dump() for event in listening.seen])


def test_an_instruction_that_is_not_used_is_reported() -> None:
    reranker = SecondPassRerank("lexical")
    _, report = reranker.rerank_nodes(nodes_of(), QUERY, instruction="prefer owls")
    assert [(issue.code, issue.method) for issue in report.issues] == [
        ("instruction_not_used", "lexical")
    ]
    with pytest.raises(ValueError, match="instruction: give a string, not 7"):
        reranker.query_settings(instruction=7)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [0, -1, "two", 1.5, True])
def test_wrong_top_n_is_refused_before_any_event(wrong: Any, listening: Listening) -> None:
    with pytest.raises(ValueError, match=r"^top_n: "):
        SecondPassRerank("lexical").rerank_nodes(nodes_of(), QUERY, top_n=wrong)
    assert listening.seen == []
