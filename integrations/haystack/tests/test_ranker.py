"""What is the component's own: sockets, secrets, attributes, copies and documents."""

from __future__ import annotations

import asyncio
import inspect
import pickle
from collections import OrderedDict, defaultdict
from types import MappingProxyType
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.components.builders import PromptBuilder
from haystack.components.joiners import DocumentJoiner
from haystack.utils import Secret

from contract import Numbers
from fake_provider import FakeProvider
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_objects import CASTLES, QUERY, ids, numbered, passages, retriever
from secondpass import NotSerializableError

# ---------------------------------------------------------------------- sockets


def test_run_and_run_async_have_the_same_sockets() -> None:
    ranker: Any = SecondPassRanker("lexical")
    assert inspect.signature(ranker.run) == inspect.signature(ranker.run_async)
    sockets = ranker.__haystack_input__._sockets_dict
    names = inspect.signature(ranker.run).parameters
    mandatory = {name: socket.is_mandatory for name, socket in sockets.items()}
    assert mandatory == {name: name in {"query", "documents"} for name in names}
    outputs = {n: one.type for n, one in ranker.__haystack_output__._sockets_dict.items()}
    assert outputs == {"documents": list[Document], "report": dict[str, Any]}


def test_it_connects_to_its_neighbours_without_naming_sockets() -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", retriever())
    pipeline.add_component("joiner", DocumentJoiner())
    pipeline.add_component("ranker", SecondPassRanker("lexical"))
    pipeline.add_component("again", SecondPassRanker("lexical", top_k=1))
    template = "{% for document in documents %}{{ document.content }}{% endfor %}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables="*"))
    pipeline.connect("retriever", "joiner")
    pipeline.connect("joiner", "ranker")
    pipeline.connect("ranker", "again")
    pipeline.connect("again", "prompt")
    asked = {name: {"query": CASTLES} for name in ("retriever", "ranker", "again")}
    result = pipeline.run(asked, include_outputs_from={"again"})
    assert result["prompt"] == {"prompt": "The castle garden opens at nine."}
    assert result["again"]["report"]["status"] == "ok"


@pytest.mark.parametrize("top_k", [0, -3])
def test_top_k_is_checked_as_haystack_does(top_k: int) -> None:
    message = f"^top_k must be > 0, but got {top_k}$"
    with pytest.raises(ValueError, match=message):
        SecondPassRanker("lexical", top_k=top_k)
    ranker = SecondPassRanker("lexical")
    for documents in ([], passages()):
        with pytest.raises(ValueError, match=message):
            ranker.run(QUERY, documents, top_k)
        with pytest.raises(ValueError, match=message):
            asyncio.run(ranker.run_async(QUERY, documents, top_k))


# ---------------------------------------------------------------------- documents


METADATA: dict[str, Any] = {
    "that cannot be changed": MappingProxyType({"place": 0}),
    "ordered": OrderedDict(place=0),
    "with defaults": defaultdict(list, place=0),
    "none": None,
}


@pytest.mark.parametrize("kind", METADATA)
def test_metadata_of_odd_kinds(kind: str) -> None:
    given = [Document(content="3", id="a", meta=METADATA[kind]), Document(content="9", id="b")]
    documents = SecondPassRanker({"method": Numbers()}).run(QUERY, given)["documents"]
    assert ids(documents) == ["b", "a"]
    assert documents[1].meta["rerank_status"] == "scored"
    assert documents[1].meta.get("place", 0) == 0
    assert given[0].meta is METADATA[kind]


# ---------------------------------------------------------------------- secrets


@pytest.mark.parametrize("kind", ["endpoint", "listwise"])
@pytest.mark.parametrize("key", [None, "sk-of-the-variable"])
def test_an_optional_secret(monkeypatch: pytest.MonkeyPatch, kind: str, key: str | None) -> None:
    monkeypatch.delenv("THE_KEY", raising=False)
    token = Secret.from_env_var("THE_KEY", strict=False)
    with FakeProvider() as server:
        method: dict[str, Any] = {"type": "listwise", "llm": server.llm("openai")}
        if kind == "endpoint":
            method = {"type": "endpoint", "api": "tei", "base_url": server.base_url("tei")}
        made = SecondPassRanker({"method": method}, api_key=token)
        saved = SecondPassRanker.from_dict(made.to_dict())
        if key is not None:
            monkeypatch.setenv("THE_KEY", key)
        for ranker in (made, saved):
            assert ranker.run(QUERY, numbered(1, 2))["report"]["status"] == "ok"
            ranker.close()
        sent = {request.key for request in server.requests}
    assert sent == {key} if key else sent <= {"", "none"}


# ---------------------------------------------------------------------- attributes and copies


def test_every_parameter_can_be_assigned_or_is_refused() -> None:
    ranker: Any = SecondPassRanker("lexical")
    before = ranker.to_dict()
    for name in inspect.signature(SecondPassRanker.__init__).parameters.keys() - {"self"}:
        if name not in {
            *("top_k", "depth", "score_threshold", "dedupe", "max_tokens", "meta_prefix")
        }:
            with pytest.raises(AttributeError, match=f"^{name} can't be changed"):
                setattr(ranker, name, "other")
    unknown = r"^topk is no parameter of SecondPassRanker.*did you mean 'top_k'\?"
    with pytest.raises(AttributeError, match=unknown):
        ranker.topk = 3
    assert ranker.to_dict() == before


def test_pickles_like_it_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", "sk-very-secret")
    ranker = SecondPassRanker("cohere", top_k=2, api_key=Secret.from_env_var("THE_KEY"))
    ranker.depth = 5
    written = pickle.dumps(ranker)
    assert b"sk-very-secret" not in written
    assert pickle.loads(written).to_dict() == ranker.to_dict()
    with pytest.raises(NotSerializableError, match="Numbers"):
        pickle.dumps(SecondPassRanker({"method": Numbers()}))
