"""What users do with the ranker beside the usual: assign, close, mistake arguments, read scores."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import Secret

from fake_provider import FakeProvider
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import NotSerializableError

QUERY = "castle garden"
ASSIGNABLE = {"top_k", "depth", "score_threshold", "dedupe", "meta_prefix"}
FIXED = SecondPassRanker.PARAMETERS.defaults.keys() - ASSIGNABLE


class Numbers:
    """Scores a document by the number that it consists of."""

    model_name = "numbers"
    score_kind = "probability"

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        return [float(document) for document in documents]


def numbered(*numbers: float) -> list[Document]:
    """Documents whose content is a number, retrieved in this order with falling scores."""
    return [
        Document(
            id=f"d{index}", content=str(number), score=1 - index / len(numbers), meta={"at": index}
        )
        for index, number in enumerate(numbers)
    ]


# ---------------------------------------------------------------------- keys that may be absent


@pytest.fixture
def server() -> Iterator[FakeProvider]:
    with FakeProvider() as server:
        server.play()
        yield server


def endpoint(server: FakeProvider) -> dict[str, Any]:
    return {"type": "endpoint", "api": "tei", "base_url": server.base_url("tei")}


def listwise(server: FakeProvider) -> dict[str, Any]:
    return {"type": "listwise", "llm": server.llm("openai")}


@pytest.mark.parametrize("method", [endpoint, listwise])
@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("key", [None, "sk-of-the-variable"])
def test_an_optional_secret(
    server: FakeProvider,
    monkeypatch: pytest.MonkeyPatch,
    method: Callable[[FakeProvider], dict[str, Any]],
    saved: bool,
    key: str | None,
) -> None:
    monkeypatch.delenv("THE_KEY", raising=False)
    token = Secret.from_env_var("THE_KEY", strict=False)
    ranker = SecondPassRanker({"method": method(server)}, token=token)
    if saved:
        ranker = SecondPassRanker.from_dict(ranker.to_dict())
    if key is not None:
        monkeypatch.setenv("THE_KEY", key)
    report = ranker.run(QUERY, numbered(1, 2))["report"]
    ranker.close()
    assert report["status"] == "ok"
    sent = server.requests[0].key
    assert sent == key if key else sent in {"", "none"}


@pytest.mark.parametrize("strict", [False, True])
def test_a_missing_secret_of_a_hosted_provider(
    monkeypatch: pytest.MonkeyPatch, strict: bool
) -> None:
    monkeypatch.delenv("THE_KEY", raising=False)
    method = {"type": "listwise", "llm": {"type": "openai", "model": "m"}}
    token = Secret.from_env_var("THE_KEY", strict=strict)
    report = SecondPassRanker({"method": method}, token=token).run(QUERY, numbered(1, 2))["report"]
    assert [issue["code"] for issue in report["issues"]] == ["no_key"]
    assert "THE_KEY" in report["issues"][0]["message"]


def test_a_missing_required_secret(server: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THE_KEY", raising=False)
    ranker = SecondPassRanker({"method": endpoint(server)}, token=Secret.from_env_var("THE_KEY"))
    report = ranker.run(QUERY, numbered(1, 2))["report"]
    assert [issue["code"] for issue in report["issues"]] == ["no_key"]
    assert server.calls == 0


# ---------------------------------------------------------------------- closing


class Orders:
    """A chat generator that gives the order back; notes its life."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        return {"replies": [ChatMessage.from_assistant("[1, 2]")]}


class Closes(Orders):
    def close(self) -> None:
        self.called.append("close")


class ClosesAsync(Orders):
    async def run_async(self, messages: list[ChatMessage]) -> dict[str, Any]:
        return self.run(messages)

    async def close_async(self) -> None:
        self.called.append("close_async")


class ClosesBoth(ClosesAsync, Closes):
    pass


@pytest.mark.parametrize("timeout", [None, 30])
@pytest.mark.parametrize(
    ("kind", "used", "closed", "expected"),
    [
        (Closes, "run", "close", ["close"]),
        (Closes, "run", "close_async", ["close"]),
        (Closes, "run_async", "close", ["close"]),
        (Closes, "run_async", "close_async", ["close"]),
        (Closes, "warm_up", "close_async", []),
        (ClosesAsync, "run", "close_async", ["close_async"]),
        (ClosesAsync, "run_async", "close_async", ["close_async"]),
        (ClosesAsync, "run_async", "close", []),
        (ClosesBoth, "run", "close", ["close"]),
        (ClosesBoth, "run", "close_async", ["close"]),
        (ClosesBoth, "run_async", "close_async", ["close_async"]),
        (ClosesBoth, "run_async", "close", []),
        (Orders, "run", "close_async", []),
    ],
)
def test_used_generators_are_closed(
    kind: type[Orders], used: str, closed: str, expected: list[str], timeout: int | None
) -> None:
    generator = kind()
    llm = {} if timeout is None else {"llm": {"type": "openai", "model": "m", "timeout": timeout}}
    ranker = SecondPassRanker({"method": {"type": "listwise", **llm}}, chat_generator=generator)

    async def life() -> None:
        arguments: dict[str, Any] = {}
        if used.startswith("run"):
            arguments = {"query": QUERY, "documents": numbered(1, 2)}
        outcome = getattr(ranker, used)(**arguments)
        if inspect.isawaitable(outcome):
            await outcome
        for _ in range(2):
            outcome = getattr(ranker, closed)()
            if inspect.isawaitable(outcome):
                await outcome

    asyncio.run(life())
    assert generator.called == expected


def test_both_sides_are_closed_once() -> None:
    generator = ClosesBoth()
    ranker = SecondPassRanker({"method": "listwise"}, chat_generator=generator)

    async def life() -> None:
        await ranker.run_async(QUERY, numbered(1, 2))
        ranker.run(QUERY, numbered(1, 2))
        await ranker.close_async()
        ranker.close()

    asyncio.run(life())
    assert sorted(generator.called) == ["close", "close_async"]


def test_models_are_closed_where_the_generator_cannot_be() -> None:
    class Broken(Closes):
        def close(self) -> None:
            raise OSError("a port")

    class Warm:
        model_name = "warm"
        closed = 0

        def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
            raise OSError

        def close(self) -> None:
            Warm.closed += 1

    config = {"method": Warm(), "fallback": ["listwise"]}
    ranker = SecondPassRanker(config, chat_generator=Broken())
    ranker.run(QUERY, numbered(1, 2))
    with pytest.raises(OSError, match="a port"):
        ranker.close()
    assert Warm.closed == 1


# ---------------------------------------------------------------------- assigning


def test_every_parameter_can_be_assigned_or_is_refused() -> None:
    names = inspect.signature(SecondPassRanker.__init__).parameters.keys() - {"self"}
    assert names == FIXED | ASSIGNABLE


@pytest.mark.parametrize("name", ["topk", "topn", "floor", "extra"])
def test_unknown_attributes_are_refused(name: str) -> None:
    ranker = SecondPassRanker("lexical")
    with pytest.raises(AttributeError, match=f"^{name} is no parameter of SecondPassRanker"):
        setattr(ranker, name, 3)
    with pytest.raises(AttributeError, match=r"did you mean 'top_k'\?"):
        ranker.topk = 3  # type: ignore[attr-defined]


def test_methods_and_subclasses_may_be_extended(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(SecondPassRanker):
        def __init__(self) -> None:
            super().__init__("lexical")
            self.extra = 1

    ranker = Mine()
    assert ranker.extra == 1
    with pytest.raises(AttributeError, match=r"^model can't be changed"):
        ranker.model = "other"
    monkeypatch.setattr(ranker, "run", lambda **_: {"documents": []})
    assert ranker.run(query="q", documents=numbered(1)) == {"documents": []}


def test_pickles_like_it_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", "sk-very-secret")
    ranker = SecondPassRanker("cohere", top_k=2, token=Secret.from_env_var("THE_KEY"))
    ranker.depth = 5
    written = pickle.dumps(ranker)
    assert b"sk-very-secret" not in written
    loaded = pickle.loads(written)
    assert loaded.to_dict() == ranker.to_dict()
    documents = numbered(1, 2, 3)
    again = pickle.loads(pickle.dumps(SecondPassRanker("lexical", top_k=1)))
    assert len(again.run(QUERY, documents)["documents"]) == 1
    with pytest.raises(NotSerializableError, match="Numbers"):
        pickle.dumps(SecondPassRanker({"method": Numbers()}))
    with pytest.raises(ValueError, match="Cannot serialize token-based secret"):
        pickle.dumps(SecondPassRanker("cohere", token=Secret.from_token("sk-very-secret")))


@pytest.mark.parametrize("name", sorted(FIXED))
def test_assigning_a_fixed_parameter_is_refused(name: str) -> None:
    ranker = SecondPassRanker("lexical")
    before = ranker.to_dict()
    with pytest.raises(AttributeError, match=f"^{name} can't be changed"):
        setattr(ranker, name, "other")
    assert ranker.to_dict() == before


def test_lists_that_were_given_are_not_shared() -> None:
    fields, kwargs = ["title"], {"torch_dtype": "float16"}
    ranker = SecondPassRanker(
        {"method": "cross_encoder"}, meta_fields_to_embed=fields, model_kwargs=kwargs
    )
    fields.append("other")
    kwargs["other"] = "1"
    parameters = ranker.to_dict()["init_parameters"]
    assert parameters["meta_fields_to_embed"] == ["title"]
    assert parameters["model_kwargs"] == {"torch_dtype": "float16"}


def test_pipelines_and_copies_may_set_what_they_need() -> None:
    ranker = SecondPassRanker("lexical")
    pipeline = Pipeline()
    pipeline.add_component("ranker", ranker)
    pipeline.remove_component("ranker")
    Pipeline().add_component("again", ranker)
    for copied in (copy.copy(ranker), copy.deepcopy(ranker)):
        with pytest.raises(AttributeError, match="model"):
            copied.model = "other"
        assert copied.run(QUERY, numbered(1))["report"]["status"] == "ok"


# ---------------------------------------------------------------------- candidates needed


def test_candidates_needed_follows_what_is_assigned() -> None:
    ranker = SecondPassRanker("lexical", depth=20)
    ranker.depth = 40
    assert ranker.candidates_needed() == 40
    ranker.top_k = 60
    assert ranker.candidates_needed() == 60


def test_a_retriever_takes_the_number_of_candidates() -> None:
    store = InMemoryDocumentStore()
    store.write_documents([Document(content=f"castle {index}") for index in range(40)])
    ranker = SecondPassRanker({"method": "lexical", "candidate_multiplier": 3}, top_k=4)
    pipeline = Pipeline()
    retriever = InMemoryBM25Retriever(store, top_k=ranker.candidates_needed())
    pipeline.add_component("retriever", retriever)
    pipeline.add_component("ranker", ranker)
    pipeline.connect("retriever", "ranker")
    assert pipeline.run({"query": "castle"})["ranker"]["report"]["usage"]["pairs"] == 12
    data = {
        "retriever": {"query": "castle", "top_k": ranker.candidates_needed(5)},
        "ranker": {"query": "castle", "top_k": 5},
    }
    assert pipeline.run(data)["ranker"]["report"]["usage"]["pairs"] == 15
