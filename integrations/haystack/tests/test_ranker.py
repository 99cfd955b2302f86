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
from haystack_documents import ids
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import ConfigurationError, InputError, NotSerializableError, Reranker

QUERY = "castle garden"
ASSIGNABLE = {"top_k", "depth", "score_threshold", "dedupe", "meta_prefix"}
FIXED = SecondPassRanker.PARAMETERS.defaults.keys() - ASSIGNABLE


class Numbers:
    """Scores a document by the number that it consists of."""

    model_name = "numbers"
    score_kind = "probability"

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        return [float(document) for document in documents]


class Fails:
    """A scorer that never answers."""

    model_name = "fails"

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        raise OSError


def numbered(*numbers: float) -> list[Document]:
    """Documents whose content is a number, retrieved in this order with falling scores."""
    return [
        Document(
            id=f"d{index}", content=str(number), score=1 - index / len(numbers), meta={"at": index}
        )
        for index, number in enumerate(numbers)
    ]


BLEND = {"original": 0.5, "normalize": "none"}


def test_the_blended_score_is_kept_beside_a_tail() -> None:
    ranker = SecondPassRanker(Reranker(Numbers(), depth=2, blend=BLEND), meta_prefix="x_")
    documents = ranker.run(QUERY, numbered(0.2, 0.9, 0.5, 0.4))["documents"]
    assert [document.score for document in documents] == [1.0, 0.75, 0.5, 0.25]
    finals = [document.meta["x_rerank_final_score"] for document in documents]
    assert finals == [pytest.approx(0.825), pytest.approx(0.6), None, None]
    assert [document.meta["x_rerank_score"] for document in documents] == [0.9, 0.2, None, None]


def test_the_final_score_where_nothing_was_judged() -> None:
    ranker = SecondPassRanker(Reranker(Fails(), blend=None))
    sources = [*numbered(0.2, 0.9), Document(content="0.4")]
    result = ranker.run(QUERY, sources)
    assert result["report"]["status"] == "unchanged"
    finals = [document.meta["rerank_final_score"] for document in result["documents"]]
    assert finals == [1.0, 0.5, None]


def test_a_second_pass_renews_the_final_score() -> None:
    sources = numbered(0.2, 0.9)
    once = SecondPassRanker(Reranker(Fails())).run(QUERY, sources)["documents"]
    twice = SecondPassRanker(Reranker(Numbers())).run(QUERY, once)["documents"]
    assert [document.meta["rerank_final_score"] for document in twice] == [0.9, 0.2]


@pytest.mark.parametrize(
    ("levels", "order", "scores"),
    [
        ("hard easy hard", ["d1", "d0", "d2"], [1.0, 2 / 3, 1 / 3]),
        # The retriever's scores still fall along the list.
        ("easy easy hard", ["d0", "d1", "d2"], [1.0, 1 - 1 / 3, 1 - 2 / 3]),
    ],
)
def test_an_order_by_metadata_where_nothing_was_judged(
    levels: str, order: list[str], scores: list[float]
) -> None:
    tiers = {"type": "tiers", "field": "level", "tiers": ["easy", "hard"]}
    ranker = SecondPassRanker({"method": Fails(), "orders": {"learn": tiers}})
    sources = numbered(0.2, 0.9, 0.4)
    for document, level in zip(sources, levels.split(), strict=True):
        document.meta["level"] = level
    result = ranker.run(QUERY, sources, order="learn")
    assert result["report"]["status"] == "unchanged"
    assert ids(result["documents"]) == order
    assert [document.score for document in result["documents"]] == scores
    retrieved = {document.id: document.score for document in sources}
    for document in result["documents"]:
        assert document.meta["rerank_final_score"] == retrieved[document.id]


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


def test_assigned_parameters_count_and_are_saved() -> None:
    ranker = SecondPassRanker("lexical", top_k=1)
    ranker.top_k, ranker.depth, ranker.score_threshold = 3, 2, -1
    ranker.dedupe, ranker.meta_prefix = False, "x_"
    again = SecondPassRanker.from_dict(ranker.to_dict())
    for one in (ranker, again):
        documents = one.run(QUERY, numbered(1, 2) + numbered(1, 2))["documents"]
        assert ids(documents) == ["d0", "d1", "d0"]
        assert documents[2].meta["x_rerank_status"] == "tail"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_k", 0),
        ("top_k", "5"),
        ("top_k", None),
        pytest.param("top_k", -(10**5000), id="huge"),
        ("depth", 0),
        ("depth", 1.5),
        ("depth", True),
        ("score_threshold", float("nan")),
        ("score_threshold", "0.5"),
        ("score_threshold", True),
        ("dedupe", "no"),
        ("meta_prefix", None),
    ],
)
def test_assigning_a_wrong_value_is_refused(name: str, value: Any) -> None:
    ranker = SecondPassRanker("lexical", top_k=1)
    before = ranker.to_dict()
    with pytest.raises(ValueError, match=name):
        setattr(ranker, name, value)
    assert ranker.to_dict() == before


@pytest.mark.parametrize("config", [{"method": "lexical", "depth": 50}, Reranker("lexical")])
def test_assigning_what_the_reranker_sets_is_refused(config: Any) -> None:
    ranker = SecondPassRanker(config)
    with pytest.raises(ConfigurationError, match="depth: can't be set, because the reranker"):
        ranker.depth = 10
    ranker.top_k = 1
    assert len(ranker.run(QUERY, numbered(1, 2))["documents"]) == 1


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


# ---------------------------------------------------------------------- wrong documents


@pytest.mark.parametrize("method", ["run", "run_async"])
@pytest.mark.parametrize(
    ("documents", "message"),
    [
        (None, r"^documents: give a list of Documents, not nothing"),
        (7, r"^documents: give a list of Documents, not an int"),
        ("text", r"^documents: give a list of Documents, not a str"),
        ({"content": "x"}, r"^documents: give a list of Documents, not a dict"),
        (Document(content="x"), r"^documents: give a list of Documents, not a Document"),
        (["text"], r"^documents\[0\]: give a Document, not a str"),
        ([Document(content="x"), None], r"^documents\[1\]: give a Document, not nothing"),
        ([{"content": "x"}], r"^documents\[0\]: give a Document, not a dict"),
        ([[Document(content="x")]], r"^documents\[0\]: give a Document, not a list"),
        ([Document(content="x", meta="y")], r"^documents\[0\]\.meta: give a dictionary"),
    ],
)
def test_wrong_documents_are_named(method: str, documents: Any, message: str) -> None:
    ranker = SecondPassRanker("lexical")

    async def call() -> Any:
        called = getattr(ranker, method)(query=QUERY, documents=documents)
        return await called if inspect.isawaitable(called) else called

    with pytest.raises(InputError, match=message):
        asyncio.run(call())


@pytest.mark.parametrize("kind", [tuple, iter])
def test_other_iterables_of_documents(kind: Callable[[Any], Any]) -> None:
    result = SecondPassRanker(Reranker(Numbers())).run(QUERY, kind(numbered(0.1, 0.2)))
    assert ids(result["documents"]) == ["d1", "d0"]


# ---------------------------------------------------------------------- candidates needed


@pytest.mark.parametrize(
    ("reranker", "parameters", "top_k", "needed"),
    [
        ({"method": "lexical", "depth": 50}, {}, None, 50),
        ({"method": "lexical", "depth": 50}, {"top_k": 80}, None, 80),
        ({"method": "lexical", "depth": 50}, {}, 80, 80),
        ({"method": "lexical", "depth": None}, {}, 5, None),
        ("listwise_guided", {}, None, None),
        ("listwise_guided", {"top_k": 5}, None, 15),
        ("listwise_guided", {"top_k": 5}, 2, 6),
        ("lexical", {"depth": 20}, None, 20),
        (Reranker("lexical", depth=30, top_k=5), {}, None, 30),
    ],
)
def test_candidates_needed(
    reranker: Any, parameters: dict[str, Any], top_k: int | None, needed: int | None
) -> None:
    assert SecondPassRanker(reranker, **parameters).candidates_needed(top_k) == needed


def test_candidates_needed_follows_what_is_assigned() -> None:
    ranker = SecondPassRanker("lexical", depth=20)
    ranker.depth = 40
    assert ranker.candidates_needed() == 40
    ranker.top_k = 60
    assert ranker.candidates_needed() == 60


@pytest.mark.parametrize("top_k", [0, -1, 1.5, "5", True])
def test_candidates_needed_refuses_no_number(top_k: Any) -> None:
    with pytest.raises(ValueError, match="top_k"):
        SecondPassRanker("lexical").candidates_needed(top_k)


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


@pytest.mark.parametrize("threshold", ["x", float("nan"), True])
def test_a_wrong_threshold_of_a_call_is_named(threshold):
    documents = [Document(content="a")]
    with pytest.raises(ValueError, match="score_threshold: give a finite number"):
        SecondPassRanker("lexical").run("q", documents, score_threshold=threshold)
