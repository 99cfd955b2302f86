"""Settings of one call."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_llms import QUERY, Listening, asking, nodes_of, scripted


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


@pytest.mark.parametrize("wrong", [0, -1, "two", 1.5, True])
def test_wrong_top_n_is_refused_before_any_event(wrong: Any, listening: Listening) -> None:
    with pytest.raises(ValueError, match=r"^top_n: "):
        SecondPassRerank("lexical").rerank_nodes(nodes_of(), QUERY, top_n=wrong)
    assert listening.seen == []
