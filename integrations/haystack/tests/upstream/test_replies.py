"""Replies of language models, and prompts."""

from __future__ import annotations

from typing import Any

import pytest
from haystack import Pipeline
from haystack.components.builders import PromptBuilder
from haystack.core.errors import PipelineRuntimeError

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_rankers import (
    BY_INDEX,
    FIRST_TO_FOURTH,
    QUERY,
    Call,
    Says,
    four,
    ids,
    indices,
    scores,
)
from secondpass import ConfigurationError, RerankError


def codes(result: dict[str, Any]) -> list[str]:
    return [issue["code"] for issue in result["report"]["issues"]]


# ---------------------------------------------------------------------- a language model's replies


@pytest.mark.parametrize(
    ("reply", "order", "issues"),
    [
        (indices(2, 1, 4, 3), "badc", []),
        (f"```json\n{indices(2, 1, 4, 3)}\n```", "badc", []),
        (indices("2", "1", "4", "3"), "badc", []),
        (indices(2, 2, 1, 4, 3, 3), "badc", ["doubled_label"]),
        (indices(99, 2, 1, 4, 3, -1), "badc", ["unknown_label"]),
        (indices("x", 2, None, 1, 4, 3), "badc", ["unknown_label"]),
        (indices(3), "cabd", ["not_in_reply"]),
        (indices(3, 3, 99), "cabd", ["not_in_reply", "doubled_label", "unknown_label"]),
        ('{"ranking": [2, 1, 4, 3]}', "badc", []),
        ("[2, 1, 4, 3]", "badc", []),
    ],
)
def test_a_reply_by_index_is_read_and_loses_no_document(
    call: Call, reply: str, order: str, issues: list[str]
) -> None:
    says = Says(reply)
    result = call(SecondPassRanker(BY_INDEX, chat_generator=says), QUERY, four())
    assert "".join(ids(result)) == order
    assert codes(result) == issues
    assert result["report"]["status"] == ("partial" if "not_in_reply" in issues else "ok")
    assert len(says.asked) == 1
    assert scores(result) == sorted(scores(result), reverse=True)


def test_only_the_first_of_several_replies_counts(call: Call) -> None:
    says = Says(indices(2, 1, 3, 4), indices(4, 3, 2, 1))
    assert ids(call(SecondPassRanker(BY_INDEX, chat_generator=says), QUERY, four())) == [*"bacd"]


UNUSABLE: dict[str, Says] = {
    "no JSON": Says("The best is the second."),
    "broken JSON": Says('{"documents": [{"index": 2}'),
    "another key": Says('{"thoughts": [{"index": 2}]}'),
    "no list": Says('{"documents": {"index": 2}}'),
    "a list of lists": Says('{"documents": [[2], [1]]}'),
    "an empty list": Says('{"documents": []}'),
    "no index of ours": Says(indices(0, 5)),
    "no number": Says(indices("invalid")),
    "two orders": Says(f"{indices(2, 1, 3, 4)} {indices(1, 2, 3, 4)}"),
    "nothing": Says(""),
    "no text": Says(None),
    "no replies": Says(),
    "an error": Says(error=RuntimeError("generator failed")),
}


@pytest.mark.parametrize("generator", UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_reply_leaves_the_order_or_raises(call: Call, generator: Says) -> None:
    result = call(SecondPassRanker(BY_INDEX, chat_generator=generator), QUERY, four())
    assert ids(result) == FIRST_TO_FOURTH
    assert result["report"]["status"] == "unchanged"
    assert len(codes(result)) == 1
    strict = SecondPassRanker(BY_INDEX, chat_generator=generator, raise_on_failure=True)
    with pytest.raises(RerankError, match="strict"):
        call(strict, QUERY, four())
    pipeline = Pipeline()
    pipeline.add_component("ranker", strict)
    with pytest.raises(PipelineRuntimeError):
        pipeline.run({"ranker": {"query": QUERY, "documents": four()}})


def test_top_k_cuts_an_unchanged_order_unlike_llmranker(call: Call) -> None:
    ranker = SecondPassRanker(BY_INDEX, chat_generator=Says("nonsense"), top_k=1)
    result = call(ranker, QUERY, four())
    assert ids(result) == ["a"]
    assert result["report"]["left_out"] == {"top_k": [1, 2, 3]}


@pytest.mark.parametrize("query", ["", "   ", "\n"])
@pytest.mark.parametrize("strict", [False, True])
def test_empty_query_is_ranked(call: Call, query: str, strict: bool) -> None:
    says = Says(indices(2, 1, 3, 4))
    ranker = SecondPassRanker(BY_INDEX, chat_generator=says, raise_on_failure=strict)
    assert ids(call(ranker, query, four())) == [*"bacd"]
    lexical = SecondPassRanker("lexical", raise_on_failure=strict)
    result = call(lexical, query, four())
    assert ids(result) == FIRST_TO_FOURTH
    assert result["report"]["status"] == "ok"


@pytest.mark.parametrize("query", [None, 123])
def test_a_query_that_is_no_string_is_refused_unlike_llmranker(call: Call, query: Any) -> None:
    says = Says(indices(1))
    with pytest.raises(ValueError, match=r"^query: give a string"):
        call(SecondPassRanker(BY_INDEX, chat_generator=says), query, four())
    assert says.asked == []


# ---------------------------------------------------------------------- prompts


def test_custom_prompt_is_sent(call: Call) -> None:
    prompt = {"user": "Order for {query}:\n\n{documents}\n\n{reply}", "system": "You order."}
    config = {"method": {**BY_INDEX["method"], "prompt": prompt}}
    says = Says(indices(2, 1, 3, 4))
    ranker = SecondPassRanker(config, chat_generator=says)
    assert ids(call(ranker, QUERY, four())) == [*"bacd"]
    system, user = says.asked[0]
    assert system.text == "You order."
    assert (user.text or "").startswith("Order for <query>cat food</query>:\n\n<doc id=")
    assert ranker.reranker.to_config()["method"]["prompt"] == prompt


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ("Rank {documents}", r"prompt\.user: has to hold \{query\}"),
        ("Rank for {query}", r"prompt\.user: has to hold \{documents\}"),
        ("Rank {documents} for {query}", r"prompt\.user: has to hold \{reply\}"),
        (
            PromptBuilder("Rank {{ documents }} for {{ query }}", required_variables="*"),
            r"prompt\.user: has to hold \{reply\}",
        ),
        ("Rank {documents} for {query} by {top_k}", r"prompt\.user.*top_k"),
        ("Rank {documents} for {query", r"prompt\.user"),
    ],
)
def test_a_prompt_without_its_parts_is_refused_at_once(user: object, message: str) -> None:
    config = {"method": {"type": "listwise", "prompt": {"user": user}}}
    with pytest.raises(ConfigurationError, match=message):
        SecondPassRanker(config, chat_generator=Says("x"))


def test_a_prompt_builder_of_haystack_may_be_the_prompt(call: Call) -> None:
    template = "{{ documents }} are to be ordered. {{ reply }} For {{ query }}"
    builder = PromptBuilder(template, required_variables=["documents", "query"])
    says = Says(indices(2, 1, 3, 4))
    config = {"method": {**BY_INDEX["method"], "prompt": {"user": builder}}}
    assert ids(call(SecondPassRanker(config, chat_generator=says), QUERY, four())) == [*"bacd"]
    assert (says.asked[0][-1].text or "").endswith("For <query>cat food</query>")
