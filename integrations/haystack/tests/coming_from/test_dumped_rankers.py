"""Haystack's own rankers as pipelines save them, with another `type`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from haystack import Document, Pipeline
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.rankers import (
    LLMRanker,
    LostInTheMiddleRanker,
    MetaFieldGroupingRanker,
    MetaFieldRanker,
)

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_objects import CROSS_ENCODER
from secondpass import InputError

OURS = "haystack_integrations.components.rankers.secondpass.ranker.SecondPassRanker"


def loaded(component: Any, *without: str) -> SecondPassRanker:
    """The component of a saved pipeline whose `type` was replaced, and parameters left out."""
    pipeline = Pipeline()
    pipeline.add_component("ranker", component)
    data = yaml.safe_load(pipeline.dumps())
    saved = data["components"]["ranker"]
    saved["type"] = OURS
    for name in without:
        del saved["init_parameters"][name]
    ranker: Any = Pipeline.loads(yaml.safe_dump(data)).get_component("ranker")
    return ranker


def of_package(package: str, name: str, *arguments: Any, **named: Any) -> Callable[[], Any]:
    """A ranker of an integration, whose package need not be installed."""

    def create() -> Any:
        pytest.importorskip(f"haystack_integrations.components.rankers.{package}")
        module = importlib.import_module(f"haystack_integrations.components.rankers.{package}")
        return getattr(module, name)(*arguments, **named)

    return create


SIMILARITY = ("sentence_transformers", "SentenceTransformersSimilarityRanker")
TAKEN = {
    "defaults": of_package(*SIMILARITY),
    "torch": of_package(
        *SIMILARITY,
        model="some/model",
        trust_remote_code=True,
        model_kwargs={"attn_implementation": "eager"},
        tokenizer_kwargs={"model_max_length": 128},
        config_kwargs={"num_labels": 1},
        batch_size=4,
        scale_score=False,
    ),
    "empty mappings": of_package(
        *SIMILARITY, model_kwargs={}, tokenizer_kwargs={}, config_kwargs={}, backend="onnx"
    ),
}


@pytest.mark.parametrize("create", TAKEN.values(), ids=TAKEN)
def test_a_saved_cross_encoder_is_taken_as_it_is(create: Callable[[], Any]) -> None:
    theirs = create()
    ranker = loaded(theirs)
    method = ranker._reranker.to_config()["method"]
    names = ("backend", "trust_remote_code", "tokenizer_kwargs", "config_kwargs")
    defaults = (None, False, None, None)
    for name, default in zip(names, defaults, strict=True):
        assert getattr(ranker, name) == getattr(theirs, name)
        assert method.get(name, default) == getattr(theirs, name)


MESSAGE = r"; (write|use|keep|leave|there is no equivalent|it is a setting|did you mean|to rank by)"
NAMED: dict[str, tuple[Callable[[], Any], set[str]]] = {
    "LLMRanker": (lambda: LLMRanker(chat_generator=MockChatGenerator("{}")), {"prompt"}),
    "LostInTheMiddleRanker": (LostInTheMiddleRanker, {"word_count_threshold"}),
    "MetaFieldRanker": (
        lambda: MetaFieldRanker("rating"),
        {"meta_field", "weight", "ranking_mode", "sort_order", "missing_meta", "meta_value_type"},
    ),
    "MetaFieldGroupingRanker": (
        lambda: MetaFieldGroupingRanker("group"),
        {"group_by", "subgroup_by", "sort_docs_by"},
    ),
    "SentenceTransformersDiversityRanker": (
        of_package("sentence_transformers", "SentenceTransformersDiversityRanker"),
        {"similarity", "strategy", "lambda_threshold"},
    ),
    "FastembedRanker": (
        of_package("fastembed", "FastembedRanker"),
        {
            *("model_name", "cache_dir", "threads", "parallel"),
            *("local_files_only", "meta_data_separator"),
        },
    ),
    "CohereRanker": (
        of_package("cohere", "CohereRanker"),
        {"api_base_url", "meta_data_separator", "max_tokens_per_doc"},
    ),
    "JinaRanker": (of_package("jina", "JinaRanker"), {"base_url"}),
}


@pytest.mark.parametrize(("create", "names"), NAMED.values(), ids=NAMED)
def test_parameters_of_other_rankers_are_refused_with_what_to_write(
    create: Callable[[], Any], names: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("COHERE_API_KEY", "JINA_API_KEY"):  # their constructors read them
        monkeypatch.setenv(variable, "sk-123")
    with pytest.raises(Exception, match="SecondPassRanker: ") as raised:
        loaded(create())
    text = str(raised.value)
    parts = re.findall(rf"([\w, ]+): unknown arguments?{MESSAGE}", text)
    assert names == {name for listed, _ in parts for name in listed.strip().split(", ")}
    messages = re.findall("unknown arguments?(; .*?)(?=; [a-z_, ]+: unknown|$)", text)
    assert len({*messages}) == len(messages) == len(parts)  # each is said once
    theirs = create()
    if hasattr(theirs, "api_key"):
        with pytest.raises(Exception, match="the key of an API is never sent to the hub"):
            loaded(theirs, *names)
    elif "LLMRanker" not in type(theirs).__name__:
        loaded(theirs, *names)


def test_a_saved_chat_generator_asks_for_a_method() -> None:
    theirs = LLMRanker(chat_generator=MockChatGenerator("{}"))
    with pytest.raises(Exception, match=r"no method asks one; these do: .*listwise"):
        loaded(theirs, "prompt")


@pytest.mark.parametrize(("own", "other"), [(None, True), (False, True), (True, False)])
def test_scale_score_at_run_time_is_that_of_the_component(own: bool | None, other: bool) -> None:
    ranker = SecondPassRanker(CROSS_ENCODER, scale_score=own)
    documents: list[Document] = []
    assert ranker.run("q", documents, scale_score=not other)["documents"] == []
    with pytest.raises(InputError, match=r"scale_score: .*create a ranker for each"):
        ranker.run("q", documents, scale_score=other)
