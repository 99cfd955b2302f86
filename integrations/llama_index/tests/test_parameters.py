"""Flat parameters: where they belong, and conflicts."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from pydantic import BaseModel, SecretStr

from fake_provider import FakeProvider
from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_index.postprocessor.secondpass.parameters import holds_a_key
from llama_objects import KEY, QUERY, lengths, nodes_of
from secondpass import ConfigurationError, Reranker
from secondpass.ranking.ordering import LostInTheMiddle


@pytest.mark.parametrize(
    ("method", "asks"),
    [
        ({"type": "endpoint", "api": "jina", "model": "m"}, "jina"),
        ({"type": "endpoint", "api": "tei"}, "tei"),
        ({"type": "graded"}, "openai"),
        ({"type": "listwise"}, "openai"),
    ],
)
@pytest.mark.parametrize("wrapped", [str, SecretStr])
def test_an_api_key_reaches_the_provider(
    method: dict[str, Any], asks: str, wrapped: Any, provider: FakeProvider
) -> None:
    provider.play()
    url = provider.base_url(asks)
    if method["type"] == "endpoint":
        method = {**method, "base_url": url}
    else:
        method = {**method, "llm": {"type": "openai", "model": "m", "base_url": url}}
    reranker = SecondPassRerank({"method": method}, api_key=wrapped(KEY))
    _, report = reranker.rerank_nodes(nodes_of(), QUERY)
    assert report.status == "ok"
    assert {request.key for request in provider.requests} == {KEY}
    reranker._reranker.close()


def test_a_key_without_a_place_is_not_shown() -> None:
    for reranker in ("lexical", Reranker("lexical")):
        with pytest.raises(ConfigurationError, match="api_key: ") as caught:
            SecondPassRerank(reranker, api_key=KEY)
        assert KEY not in str(caught.value)


WRONG: dict[tuple[str, Any], str] = {
    ("top_n", "x"): "must be a whole number, not 'x'",
    ("top_n", 0): "must be greater than or equal to 1, not 0",
    ("depth", 1.5): "must be a whole number, not 1.5",
    ("similarity_cutoff", "x"): "must be a number, not 'x'",
    ("dedupe", 3): "must be true or false, not 3",
    ("metadata_mode", "x"): "must be 'all', 'embed', 'llm' or 'none', not 'x'",
    ("metadata_prefix", 3): "must be a string, not 3",
    ("keep_retrieval_score", "x"): "must be true or false, not 'x'",
}


@pytest.mark.parametrize(("argument", "message"), WRONG.items(), ids=map(str, WRONG))
def test_a_wrong_argument_is_one_sentence(argument: tuple[str, Any], message: str) -> None:
    name, value = argument
    expected = f"SecondPassRerank: {name}: {message}"
    with pytest.raises(ConfigurationError) as constructed:
        SecondPassRerank("lexical", **{name: value})
    with pytest.raises(ConfigurationError) as assigned:
        setattr(SecondPassRerank("lexical"), name, value)
    assert str(constructed.value) == str(assigned.value) == expected


def test_an_assigned_attribute_is_a_parameter() -> None:
    with pytest.raises(ConfigurationError, match="topn: unknown argument; did you mean 'top_n'"):
        setattr(SecondPassRerank("lexical"), "topn", 3)  # noqa: B010 - for mypy it has none


def test_schema_has_every_serialised_setting() -> None:
    schema = json.loads(json.dumps(SecondPassRerank.model_json_schema()))
    told = set(schema["properties"])
    assert told >= set(SecondPassRerank("lexical").to_dict())
    assert schema["additionalProperties"] is False
    assert all("description" in one for name, one in schema["properties"].items()
               if name not in {"callback_manager", "class_name"})  # fmt: skip


def test_it_can_be_a_field_of_another_model() -> None:
    class Pipeline(BaseModel):
        behind: SecondPassRerank
        others: list[BaseNodePostprocessor] = []

    postprocessor = SecondPassRerank("lexical", top_n=2, similarity_cutoff=0.0)
    pipeline = Pipeline(behind=postprocessor, others=[postprocessor])
    assert pipeline.behind is postprocessor
    assert pipeline.model_dump()["behind"] == postprocessor.to_dict()
    again = Pipeline.model_validate_json(pipeline.model_dump_json(include={"behind"}))
    assert again.behind.to_dict() == postprocessor.to_dict()
    assert lengths(again.behind.postprocess_nodes(nodes_of(), None, QUERY)) == [3, 7]
    assert "behind" in Pipeline.model_json_schema()["properties"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"llm": [{"api_key": "sk"}]}, True),
        ({"apikey": SecretStr("sk")}, True),
        ({"default_headers": {"X": "sk"}}, True),
        ({"hub_token": "sk"}, True),
        ({"api_key": "", "headers": {}}, False),
        ({"tokens": 5, "max_tokens": 7}, False),
        ("api_key", False),
    ],
    ids=repr,
)
def test_what_holds_a_key(value: Any, expected: bool) -> None:
    assert holds_a_key(value) == expected


IN_THE_MIDDLE = {"type": "lost_in_the_middle"}


@pytest.mark.parametrize(
    ("order", "written"),
    [
        (None, None),
        ("lost_in_the_middle", "lost_in_the_middle"),
        (IN_THE_MIDDLE, IN_THE_MIDDLE),
        (LostInTheMiddle(), IN_THE_MIDDLE),
    ],
)
def test_an_order_is_written(order: Any, written: Any) -> None:
    assert SecondPassRerank("lexical", order=order).to_dict()["order"] == written


def test_a_model_in_the_place_of_a_preset_is_a_parameter() -> None:
    with pytest.raises(
        ValueError, match=r"use SecondPassRerank\(model='cross-encoder/some-model'\)"
    ):
        SecondPassRerank("cross-encoder/some-model")


OF_COMPONENT = "it is a parameter of the component: SecondPassRerank(%s=…)"
IN_CALLS = {
    "postprocess_nodes": {"top_k": OF_COMPONENT % "top_n", "query": "did you mean 'query_str'?"},
    "rerank_nodes": {
        "top_k": "did you mean 'top_n'?",
        "query_bundle": "did you mean 'query'?",
        "depth": OF_COMPONENT % "depth",
        "documents": "did you mean 'nodes'?",
        "verbose": "leave it out; rerank_nodes returns a report",
    },
}


@pytest.mark.parametrize(
    ("call", "name"), [(call, name) for call, names in IN_CALLS.items() for name in names]
)
def test_a_keyword_that_a_call_does_not_take(call: str, name: str) -> None:
    message = re.escape(f"got an unexpected keyword argument {name!r}; {IN_CALLS[call][name]}")
    rerank = SecondPassRerank("lexical")
    with pytest.raises(TypeError, match=message):
        getattr(rerank, call)(nodes_of(), **{name: 2})
    with pytest.raises(TypeError, match=message):
        asyncio.run(getattr(rerank, f"a{call}")(nodes_of(), **{name: 2}))


def test_a_keyword_that_query_settings_do_not_have() -> None:
    settings: Any = SecondPassRerank("lexical").query_settings
    with pytest.raises(TypeError, match="'top_k'; did you mean 'top_n'"):
        settings(top_k=2)
