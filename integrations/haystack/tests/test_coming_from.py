"""What `docs/coming-from-haystack.md` says: the same order, and the same scores if there are any.

The peers that Haystack brings are asked themselves. The others live in packages of their own
(`tests/peers/requirements.txt`); they are asked by the tests marked `long`, and what
SentenceTransformersSimilarityRanker computes is computed here as well, with sentence-transformers.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from haystack import Document, Pipeline
from haystack.components.rankers import LLMRanker, LostInTheMiddleRanker, MetaFieldRanker
from haystack.components.routers import MetadataRouter
from haystack.dataclasses import ChatMessage
from haystack.utils import ComponentDevice, Secret
from hypothesis import given, settings
from hypothesis import strategies as st

import tiny_models
from fake_provider import FakeProvider
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from sampling import rotating

BY_INDEX: dict[str, Any] = {
    "method": {"type": "listwise", "labels": "index1", "window": None},
    "depth": None,
}
QUERY = "cat food"


class Says:
    """A chat generator with one reply for whatever it is asked."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[str] = []

    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        self.asked.append(messages[-1].text or "")
        return {"replies": [ChatMessage.from_assistant(self.text)]}


def indices(*numbers: int) -> str:
    """A reply as LLMRanker asks for it; numbers count from 1."""
    return json.dumps({"documents": [{"index": number} for number in numbers]})


def named(count: int) -> list[Document]:
    return [
        Document(id=f"d{at}", content=f"text {at}", score=1 - at / (count + 1))
        for at in range(count)
    ]


def ids(result: dict[str, Any]) -> list[str]:
    return [document.id for document in result["documents"]]


def scores(result: dict[str, Any]) -> list[float]:
    return [document.score for document in result["documents"]]


def both(ranker: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """What a ranker says; the same whether it is asked synchronously or not."""
    result: dict[str, Any] = ranker.run(*args, **kwargs)
    if hasattr(ranker, "run_async"):
        waited = asyncio.run(ranker.run_async(*args, **kwargs))
        assert (ids(waited), scores(waited)) == (ids(result), scores(result))
    return result


# ---------------------------------------------------------------------- LLMRanker

orders = st.integers(1, 30).flatmap(lambda count: st.permutations(range(1, count + 1)))


@settings(max_examples=40)
@given(order=orders, own=st.integers(1, 35), of_the_call=st.none() | st.integers(1, 35))
def test_a_full_order_is_followed_as_llmranker_does(
    order: list[int], own: int, of_the_call: int | None
) -> None:
    documents = named(len(order))
    reply = indices(*order)
    theirs = LLMRanker(chat_generator=Says(reply), top_k=own)
    ours = SecondPassRanker(BY_INDEX, chat_generator=Says(reply), top_k=own)
    expected = ids(theirs.run(QUERY, documents, top_k=of_the_call))
    assert ids(ours.run(QUERY, documents, top_k=of_the_call)) == expected
    assert expected == [f"d{number - 1}" for number in order][: of_the_call or own]


def test_asynchronously_too_and_of_duplicates_the_best() -> None:
    documents = [*named(3), Document(id="d0", content="another text 0", score=2.0)]
    reply = indices(2, 3, 1)
    theirs = both(LLMRanker(chat_generator=Says(reply)), QUERY, documents)
    says = Says(reply)
    ours = both(SecondPassRanker(BY_INDEX, chat_generator=says, top_k=10), QUERY, documents)
    assert ids(ours) == ids(theirs)
    contents = [[one.content for one in result["documents"]] for result in (ours, theirs)]
    assert contents[0] == contents[1]
    assert "another text 0" in says.asked[0]


@settings(max_examples=40)
@given(data=st.data(), order=orders)
def test_documents_that_the_model_leaves_out_stand_behind_what_llmranker_returns(
    data: st.DataObject, order: list[int]
) -> None:
    documents = named(len(order))
    reply = indices(*order[: data.draw(st.integers(1, len(order)))])
    theirs = LLMRanker(chat_generator=Says(reply), top_k=len(order)).run(QUERY, documents)
    ours = SecondPassRanker(BY_INDEX, chat_generator=Says(reply)).run(QUERY, documents)
    count = len(theirs["documents"])
    assert ids(ours)[:count] == ids(theirs)
    left_out = [one.id for one in documents if one.id not in ids(theirs)]
    assert ids(ours)[count:] == left_out
    if len(documents) > 1:  # a single document is in order without a question
        told = [one.meta["rerank_status"] for one in ours["documents"]]
        assert told == ["scored"] * count + ["backfilled"] * len(left_out)


@pytest.mark.parametrize("reply", [indices(3), indices(4, 2), indices(2, 1, 4, 3)])
def test_a_router_behind_drops_what_llmranker_drops(reply: str) -> None:
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker(BY_INDEX, chat_generator=Says(reply)))
    rule = {"field": "meta.rerank_status", "operator": "==", "value": "scored"}
    pipeline.add_component("listed", MetadataRouter({"documents": rule}))
    pipeline.connect("ranker.documents", "listed.documents")
    result = pipeline.run({"ranker": {"query": QUERY, "documents": named(4)}})
    theirs = LLMRanker(chat_generator=Says(reply)).run(QUERY, named(4))
    assert ids(result["listed"]) == ids(theirs)


def test_grades_with_a_threshold_drop_what_is_not_relevant() -> None:
    class Grades(Says):
        def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
            self.text = json.dumps({"1": 0, "2": 3, "3": 1, "4": 2})
            return super().run(messages)

    method = {"type": "graded", "scale": [0, 3], "labels": "index1"}
    ranker = SecondPassRanker({"method": method}, chat_generator=Grades(""), score_threshold=2)
    assert ids(both(ranker, QUERY, named(4))) == ["d1", "d3"]


@pytest.mark.parametrize(
    ("reply", "theirs", "ours"),
    [
        (indices(2, 2, 1), ["d1", "d1", "d0"], ["d1", "d0"]),
        (f"```json\n{indices(2, 1)}\n```", ["d0", "d1"], ["d1", "d0"]),
        ('{"documents": []}', [], ["d0", "d1"]),
        ("no JSON", ["d0", "d1"], ["d0", "d1"]),
    ],
)
def test_where_the_two_differ_on_purpose(reply: str, theirs: list[str], ours: list[str]) -> None:
    assert ids(LLMRanker(chat_generator=Says(reply)).run(QUERY, named(2))) == theirs
    ranker = SecondPassRanker(BY_INDEX, chat_generator=Says(reply))
    assert ids(both(ranker, QUERY, named(2))) == ours


def test_scores_are_new_where_those_of_llmranker_are_the_retriever_s() -> None:
    reply = indices(2, 1)
    stale = LLMRanker(chat_generator=Says(reply)).run(QUERY, named(2))
    assert scores(stale) == [one.score for one in reversed(named(2))]
    ours = SecondPassRanker(BY_INDEX, chat_generator=Says(reply)).run(QUERY, named(2))
    assert scores(ours) == [1.0, 0.5]
    kept = [one.meta["retrieval_score"] for one in ours["documents"]]
    assert kept == scores(stale)


# ---------------------------------------------------------------------- LostInTheMiddleRanker


@rotating(count=range(10), top_k=[None, 1, 2, 5, 20])
def test_the_best_stand_at_both_ends_as_with_lost_in_the_middle_ranker(
    count: int, top_k: int | None
) -> None:
    documents = [
        Document(id=f"d{at}", content="cat " * (at * 7 % 11) + "dog " * 11) for at in range(count)
    ]
    ranked = SecondPassRanker("lexical").run("cat", documents)["documents"]
    theirs = LostInTheMiddleRanker(top_k=top_k).run(ranked)
    ours = SecondPassRanker({"method": "lexical", "order": "lost_in_the_middle"}, top_k=top_k)
    assert ids(both(ours, "cat", documents)) == ids(theirs)
    by_call = SecondPassRanker("lexical").run(
        "cat", documents, top_k=top_k, order="lost_in_the_middle"
    )
    assert ids(by_call) == ids(theirs)


def test_documents_without_content_are_laid_out_where_theirs_raises() -> None:
    documents = [Document(id="empty"), *(Document(id=word, content=word) for word in ("cat", "a"))]
    with pytest.raises(ValueError, match="not textual"):
        LostInTheMiddleRanker().run(documents)
    ours = SecondPassRanker({"method": "lexical", "order": "lost_in_the_middle"})
    assert ids(both(ours, "cat", documents)) == ["cat", "empty", "a"]


# ---------------------------------------------------------------------- MetaFieldRanker


class ByNumber:
    """Scores by a number of the metadata, which `render.fields` shows in the place of a text."""

    model_name = "by-number"

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        return [float(document) for document in documents]


class ByPlace:
    """The same as shares of the place, the best 1."""

    model_name = "by-place"
    score_kind = "probability"
    pointwise = False

    def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
        best_first = sorted(documents, key=float, reverse=True)
        return [1 - best_first.index(document) / len(documents) for document in documents]


def rated(seed: int, count: int = 8) -> list[Document]:
    ratings = random.Random(seed).sample(range(100), count)
    return [
        Document(id=f"d{at}", content="text", score=1 - at / count, meta={"rating": rating})
        for at, rating in enumerate(ratings)
    ]


@rotating(seed=range(5), weight=[0.0, 0.2, 0.5, 0.9, 1.0])
def test_ranks_by_metadata_are_fused_as_meta_field_ranker_does(weight: float, seed: int) -> None:
    documents = rated(seed)
    theirs = MetaFieldRanker("rating", weight=weight).run(documents)
    config = {
        "method": ByNumber(),
        "render": {"fields": ["rating"]},
        "blend": {"original": 1 - weight, "normalize": "rrf"},
    }
    ours = both(SecondPassRanker(config), QUERY, documents)
    assert ids(ours) == ids(theirs)
    if weight:  # with none it leaves the scores as they came
        assert scores(ours) == pytest.approx(scores(theirs))


@rotating(seed=range(5), weight=[0.2, 0.5, 1.0])
def test_places_by_metadata_are_added_as_meta_field_ranker_does(weight: float, seed: int) -> None:
    documents = rated(seed)
    theirs = MetaFieldRanker("rating", weight=weight, ranking_mode="linear_score").run(documents)
    config = {
        "method": ByPlace(),
        "render": {"fields": ["rating"]},
        "blend": {"original": 1 - weight, "normalize": "none"},
    }
    ours = both(SecondPassRanker(config), QUERY, documents)
    assert scores(ours) == pytest.approx(scores(theirs))
    apart = [one for one in zip(ids(ours), ids(theirs), strict=True) if one[0] != one[1]]
    ties = {round(score, 9) for score in scores(ours)}
    assert not apart or len(ties) < len(documents)


def test_documents_without_the_field_come_last_or_not_at_all() -> None:
    documents = [Document(id="none", content="text"), *rated(0)]
    config = {"method": ByNumber(), "render": {"fields": ["rating"]}}
    ours = both(SecondPassRanker(config), QUERY, documents)
    assert ids(ours) == ids(MetaFieldRanker("rating").run(documents))
    assert ids(ours)[-1] == "none"
    judged = [one for one in ours["documents"] if one.meta["rerank_status"] == "scored"]
    dropped = MetaFieldRanker("rating", missing_meta="drop").run(documents)
    assert ids({"documents": judged}) == ids(dropped)


def test_the_lowest_come_first_where_the_scorer_turns_the_sign() -> None:
    class Lowest(ByNumber):
        def score_pairs(self, query: str, documents: Sequence[str]) -> list[float]:
            return [-score for score in super().score_pairs(query, documents)]

    config = {"method": Lowest(), "render": {"fields": ["rating"]}}
    ours = both(SecondPassRanker(config), QUERY, rated(2))
    assert ids(ours) == ids(MetaFieldRanker("rating", sort_order="ascending").run(rated(2)))


def test_an_order_moves_what_a_method_has_ranked_by_its_metadata() -> None:
    documents = rated(1)
    theirs = MetaFieldRanker("rating").run(documents)

    def by_rating(items: Sequence[Any]) -> list[Any]:
        return sorted(items, key=lambda item: -item.metadata["rating"])

    ours = SecondPassRanker({"method": "lexical", "order": by_rating})
    assert ids(both(ours, QUERY, documents)) == ids(theirs)


# ---------------------------------------------------------------------- cross-encoders


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small cross-encoder on disk that knows its words, so that it tells texts apart."""
    from tokenizers import BertWordPieceTokenizer

    folder = tiny_models.write_classifier(tmp_path_factory.mktemp("models") / "model")
    vocabulary = {word: number for number, word in enumerate(tiny_models.WORDS)}
    BertWordPieceTokenizer(vocabulary).save(str(folder / "tokenizer.json"))
    return folder


def passages() -> list[Document]:
    texts = [
        "the cat sat on a mat",
        "the dog ran",
        "food",
        "yes no yes no",
        "query a cat",
        "a dog sat on the mat",
        "no food ran",
        "cat dog cat",
    ]
    titles: list[Any] = ["the cat", 0, None, False, "food", "", "mat", "dog"]
    return [
        Document(id=f"d{at}", content=text, score=0.5, meta={"title": title, "at": at})
        for at, (text, title) in enumerate(zip(texts, titles, strict=True))
    ]


def computed(
    model: Path,
    documents: list[Document],
    *,
    fields: Sequence[str] = (),
    separator: str = "\n",
    query: str = "{}",
    document: str = "{}",
    scale: bool = True,
) -> list[tuple[str, float]]:
    """Ids and scores, best first, as a cross-encoder gives them to whoever asks it directly."""
    from sentence_transformers import CrossEncoder

    pairs = []
    for one in documents:
        values = [str(one.meta[key]) for key in fields if one.meta.get(key) is not None]
        text = separator.join([*values, one.content or ""])
        pairs.append((query.format(QUERY), document.format(text)))
    function = torch.nn.Sigmoid() if scale else torch.nn.Identity()
    given = CrossEncoder(str(model), device="cpu").predict(pairs, activation_fn=function)
    return sorted(
        ((one.id, float(score)) for one, score in zip(documents, given, strict=True)),
        key=lambda pair: -pair[1],
    )


def agree(result: dict[str, Any], expected: list[tuple[str, float]]) -> None:
    assert ids(result) == [one for one, _ in expected]
    assert scores(result) == pytest.approx([score for _, score in expected], abs=1e-6)


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "as it is": ({}, {}),
    "logits": ({"scale_score": False}, {"scale": False}),
    "prefixes": (
        {"query_prefix": "the dog ", "document_prefix": "a mat "},
        {"query": "the dog {}", "document": "a mat {}"},
    ),
    "suffixes": (
        {"query_suffix": " yes", "document_suffix": "\nno"},
        {"query": "{} yes", "document": "{}\nno"},
    ),
    "metadata": ({"meta_fields_to_embed": ["at"]}, {"fields": ["at"]}),
    "metadata by another separator": (
        {"meta_fields_to_embed": ["title", "at"], "embedding_separator": " sat "},
        {"fields": ["title", "at"], "separator": " sat "},
    ),
    "all together": (
        {
            "meta_fields_to_embed": ["missing", "title"],
            "embedding_separator": " on ",
            "query_prefix": "yes ",
            "query_suffix": " no",
            "document_prefix": "a ",
            "document_suffix": " dog",
            "scale_score": False,
        },
        {
            "fields": ["missing", "title"],
            "separator": " on ",
            "query": "yes {} no",
            "document": "a {} dog",
            "scale": False,
        },
    ),
}


def ranked_by(model: Path, **parameters: Any) -> SecondPassRanker:
    """The ranker that the page gives for SentenceTransformersSimilarityRanker."""
    config = {"method": {"type": "cross_encoder", "dtype": "auto"}, "depth": None}
    return SecondPassRanker(config, **{"model": model, "scale_score": True, **parameters})


@pytest.mark.parametrize(("parameters", "computation"), CASES.values(), ids=CASES)
def test_scores_are_those_of_the_cross_encoder(
    model: Path, parameters: dict[str, Any], computation: dict[str, Any]
) -> None:
    # One with an empty string among its metadata apart: its separator is left out here.
    documents = [one for one in passages() if one.meta["title"] != ""]
    expected = computed(model, documents, **computation)
    gaps = [first - second for (_, first), (_, second) in itertools.pairwise(expected)]
    assert min(gaps) > 1e-5, "the order would be one of chance"
    agree(both(ranked_by(model, **parameters), QUERY, documents), expected)


def test_threshold_and_top_k_cut_as_they_do_there(model: Path) -> None:
    expected = computed(model, passages())
    lowest = [(one + other) / 2 for (_, one), (_, other) in itertools.pairwise(expected)]
    ranker = ranked_by(model)
    for at, threshold in enumerate([*lowest, 0.0]):
        for top_k in (1, 3, 50):
            result = both(ranker, QUERY, passages(), top_k=top_k, score_threshold=threshold)
            agree(result, expected[: at + 1][:top_k])
    by_parameter = ranked_by(model, top_k=3, score_threshold=lowest[3])
    agree(both(by_parameter, QUERY, passages()), expected[:3])


def test_more_documents_than_a_hundred_are_judged_with_a_depth_of_none() -> None:
    documents = named(104)
    every = SecondPassRanker({"method": "lexical", "depth": None}).run(QUERY, documents)
    assert {one.meta["rerank_status"] for one in every["documents"]} == {"scored"}
    usual = SecondPassRanker("lexical").run(QUERY, documents)
    told = [one.meta["rerank_status"] for one in usual["documents"]]
    assert told == ["scored"] * 100 + ["tail"] * 4


def test_a_document_without_content_is_not_judged_but_kept(model: Path) -> None:
    documents = [Document(id="empty"), *passages()]
    result = both(ranked_by(model), QUERY, documents)
    assert ids(result)[-1] == "empty"
    assert result["documents"][-1].meta["rerank_status"] == "unjudged"
    expected = computed(model, passages())
    assert ids(result)[:-1] == [one for one, _ in expected]
    # A list in which one has no score is numbered; the scores themselves stand in the metadata.
    assert scores(result) == [(9 - at) / 9 for at in range(9)]
    told = [one.meta["rerank_score"] for one in result["documents"][:-1]]
    assert told == pytest.approx([score for _, score in expected], abs=1e-6)


# ---------------------------------------------------------------------- peers of other packages


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with FakeProvider() as running:
        yield running


@pytest.mark.long
@pytest.mark.parametrize("parameters", [given for given, _ in CASES.values()], ids=CASES)
def test_sentence_transformers_similarity_ranker_gives_the_same(
    model: Path, parameters: dict[str, Any]
) -> None:
    peers = pytest.importorskip("haystack_integrations.components.rankers.sentence_transformers")
    documents = [one for one in passages() if one.meta["title"] != ""]
    common = {"device": ComponentDevice.from_str("cpu"), "top_k": 5, **parameters}
    theirs = peers.SentenceTransformersSimilarityRanker(model=str(model), token=None, **common)
    expected = theirs.run(query=QUERY, documents=documents)
    pairs = list(zip(ids(expected), scores(expected), strict=True))
    agree(both(ranked_by(model, **common), QUERY, documents), pairs)
    at = pairs[2][1] - 1e-5
    thresholded = theirs.run(query=QUERY, documents=documents, top_k=4, score_threshold=at)
    again = both(ranked_by(model, **common), QUERY, documents, top_k=4, score_threshold=at)
    assert ids(again) == ids(thresholded) == [one for one, _ in pairs[:3]]


def numbered(*, meta: bool = False) -> list[Document]:
    """Documents that the fake provider scores by the number in their text."""
    return [
        Document(id=f"d{number}", content=f"{number} cats", meta={"title": "on"} if meta else {})
        for number in (3, 1, 7, 9, 4, 2)
    ]


def compare(
    provider: FakeProvider,
    theirs: Any,
    ours: SecondPassRanker,
    documents: list[Document],
    **arguments: Any,
) -> None:
    """Both are asked, say the same, and have shown the server the same."""
    expected = theirs.run(query=QUERY, documents=documents, **arguments)
    result = both(ours, QUERY, documents, **arguments)
    assert result["report"]["status"] == "ok"
    assert ids(result) == ids(expected)
    assert scores(result) == pytest.approx(scores(expected), abs=1e-9)
    shown = [(request.documents, request.body["query"]) for request in provider.requests]
    assert len(shown) == 3
    assert all(one == shown[0] for one in shown)
    assert {request.key for request in provider.requests} == {"sk-test"}
    ours.close()
    if hasattr(theirs, "close"):
        theirs.close()


@pytest.mark.long
@pytest.mark.parametrize("arguments", [{}, {"top_k": 2}, {"top_k": 50}])
def test_cohere_ranker_gives_the_same(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]
) -> None:
    peers = pytest.importorskip("haystack_integrations.components.rankers.cohere")
    monkeypatch.setenv("SOME_KEY", "sk-test")
    key = Secret.from_env_var("SOME_KEY")
    url = provider.base_url("cohere")
    theirs = peers.CohereRanker(
        "rerank-v3.5",
        api_key=key,
        api_base_url=url,
        meta_fields_to_embed=["title"],
        meta_data_separator=" - ",
    )
    method = {"type": "endpoint", "api": "cohere", "base_url": url}
    method["options"] = {"max_tokens_per_doc": 4096}
    ours = SecondPassRanker(
        {"method": method, "depth": None},
        model="rerank-v3.5",
        top_k=10,
        token=key,
        meta_fields_to_embed=["title"],
        embedding_separator=" - ",
        dedupe=False,
        raise_on_failure=True,
    )
    compare(provider, theirs, ours, numbered(meta=True), **arguments)
    theirs._cohere_client.__exit__(None, None, None)  # it has no close, and leaves sockets open
    bodies = [request.body for request in provider.requests]
    assert {body["max_tokens_per_doc"] for body in bodies} == {4096}
    assert {body["model"] for body in bodies} == {"rerank-v3.5"}


@pytest.mark.long
@pytest.mark.parametrize("arguments", [{}, {"top_k": 2}, {"score_threshold": 0.4}])
def test_jina_ranker_gives_the_same(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]
) -> None:
    peers = pytest.importorskip("haystack_integrations.components.rankers.jina")
    monkeypatch.setenv("SOME_KEY", "sk-test")
    key = Secret.from_env_var("SOME_KEY")
    url = provider.base_url("jina")
    theirs = peers.JinaRanker("m", api_key=key, base_url=f"{url}/rerank", score_threshold=0.2)
    ours = SecondPassRanker(
        {"method": {"type": "endpoint", "api": "jina", "base_url": url}, "depth": None},
        model="m",
        token=key,
        score_threshold=0.2,
        dedupe=False,
        raise_on_failure=True,
    )
    compare(provider, theirs, ours, numbered(), **arguments)


@pytest.mark.long
@pytest.mark.parametrize("arguments", [{}, {"top_k": 2}, {"score_threshold": 0.4}])
def test_vllm_ranker_gives_the_same(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]
) -> None:
    peers = pytest.importorskip("haystack_integrations.components.rankers.vllm")
    monkeypatch.setenv("SOME_KEY", "sk-test")
    key = Secret.from_env_var("SOME_KEY")
    url = provider.base_url("jina")
    extra = {"truncate_prompt_tokens": 256}
    theirs = peers.VLLMRanker(
        model="m",
        api_key=key,
        api_base_url=url,
        meta_fields_to_embed=["title"],
        extra_parameters=extra,
    )
    method = {"type": "endpoint", "api": "vllm", "base_url": url, "options": extra}
    ours = SecondPassRanker(
        {"method": method, "depth": None},
        model="m",
        token=key,
        meta_fields_to_embed=["title"],
        dedupe=False,
        raise_on_failure=True,
    )
    compare(provider, theirs, ours, numbered(meta=True), **arguments)
    told = {request.body["truncate_prompt_tokens"] for request in provider.requests}
    assert told == {256}


@pytest.mark.long
@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("arguments", [{}, {"top_k": 2}])
def test_hugging_face_tei_ranker_gives_the_same(
    provider: FakeProvider,
    monkeypatch: pytest.MonkeyPatch,
    arguments: dict[str, Any],
    raw: bool,
) -> None:
    peers = pytest.importorskip("haystack_integrations.components.rankers.huggingface_api")
    monkeypatch.setenv("SOME_KEY", "sk-test")
    key = Secret.from_env_var("SOME_KEY")
    url = f"http://127.0.0.1:{provider.port}"
    theirs = peers.HuggingFaceTEIRanker(url=url, token=key, raw_scores=raw)
    method = {"type": "endpoint", "api": "tei", "base_url": url, "raw_scores": raw}
    ours = SecondPassRanker(
        {"method": method, "depth": None}, token=key, top_k=10, raise_on_failure=True
    )
    # It takes the best of those with the same id, as this one does.
    documents = [*numbered(), Document(id="d3", content="8 cats", score=1.0)]
    compare(provider, theirs, ours, documents, **arguments)
    assert {request.body["raw_scores"] for request in provider.requests} == {raw}


PAGE = Path(__file__).resolve().parents[3] / "docs/coming-from-haystack.md"
PEERS = [
    ("haystack.components.rankers", "LLMRanker"),
    ("haystack.components.rankers", "LostInTheMiddleRanker"),
    ("haystack.components.rankers", "MetaFieldRanker"),
    *(
        pytest.param(
            f"haystack_integrations.components.rankers.{module}", name, marks=pytest.mark.long
        )
        for module, name in [
            ("cohere", "CohereRanker"),
            ("fastembed", "FastembedRanker"),
            ("huggingface_api", "HuggingFaceTEIRanker"),
            ("jina", "JinaRanker"),
            ("nvidia", "NvidiaRanker"),
            ("sentence_transformers", "SentenceTransformersSimilarityRanker"),
            ("vllm", "VLLMRanker"),
            ("voyage", "VoyageRanker"),
        ]
    ),
]


@pytest.mark.parametrize(("module", "name"), PEERS)
def test_the_page_names_every_parameter_of_the_peer(module: str, name: str) -> None:
    peer = getattr(pytest.importorskip(module), name)
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {name}\n")[1].split("\n## ")[0]
    for parameter in inspect.signature(peer.__init__).parameters:
        assert parameter == "self" or re.search(rf"`{parameter}[`=]", section), parameter
