"""Replies of language models, and prompts."""

from __future__ import annotations

import pytest
from haystack.components.builders import PromptBuilder

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
)
from secondpass import ConfigurationError

# ---------------------------------------------------------------------- a language model's replies


def test_only_the_first_of_several_replies_counts(call: Call) -> None:
    says = Says(indices(2, 1, 3, 4), indices(4, 3, 2, 1))
    assert ids(call(SecondPassRanker(BY_INDEX, chat_generator=says), QUERY, four())) == [*"bacd"]


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


# ---------------------------------------------------------------------- prompts


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
