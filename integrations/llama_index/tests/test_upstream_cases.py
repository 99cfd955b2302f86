"""The kinds of case that the test suites of LlamaIndex's own rerankers have, put to this one.

Where this one answers otherwise on purpose, the name of the test says so.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.llms import MockLLM
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.schema import (
    Document,
    ImageNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeWithScore,
    TextNode,
)
from llama_index.core.settings import Settings

import tiny_models
from llama_index.postprocessor.secondpass import SecondPassRerank
from misbehaving_replies import (
    ALL,
    GRADED,
    LISTWISE,
    NUMBERS,
    QUERY,
    Asked,
    Chatting,
    Completing,
    Form,
    Said,
    nodes,
)
from secondpass import ConfigurationError

Call = Callable[..., list[NodeWithScore]]


@pytest.fixture(params=["sync", "async"])
def rank(request: pytest.FixtureRequest) -> Call:
    """Postprocesses by the public method, synchronously or in an event loop of its own."""

    def called(reranker: SecondPassRerank, *args: Any, **kwargs: Any) -> list[NodeWithScore]:
        if request.param == "sync":
            return reranker.postprocess_nodes(*args, **kwargs)
        return asyncio.run(reranker.apostprocess_nodes(*args, **kwargs))

    return called


def honest(asked: Asked) -> Said:
    return Said(asked.honest)


def asking(form: Form, llm: type[Any] = Chatting, **settings: Any) -> SecondPassRerank:
    return SecondPassRerank(
        {"method": {"type": form.name}}, llm=llm(script=honest, form=form), **settings
    )


def numbers(ranked: list[NodeWithScore]) -> list[int]:
    return [one.metadata["number"] for one in ranked]


# ---------------------------------------------------------------------- by a language model


def test_a_window_of_one_is_refused_as_it_orders_nothing() -> None:
    with pytest.raises(ConfigurationError, match="choice_batch_size: must be greater"):
        asking(LISTWISE, choice_batch_size=1)


def test_an_llm_of_the_settings_is_not_taken_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = Completing(script=honest, form=LISTWISE)
    monkeypatch.setattr(Settings, "_llm", llm)
    with pytest.raises(ConfigurationError, match="llm"):
        SecondPassRerank({"method": {"type": "listwise"}})
    assert llm.sent == []


@pytest.mark.parametrize("llm", [MockLLM(), MockLLM(is_chat_model=True), MockFunctionCallingLLM()])
def test_a_mock_llm_which_echoes_loses_no_node(llm: Any, rank: Call) -> None:
    reranker = SecondPassRerank({"method": "listwise", "log_level": "debug"}, llm=llm, top_n=4)
    assert numbers(rank(reranker, nodes(), query_str=QUERY)) == list(NUMBERS)[:4]


def test_media_come_back_after_texts(rank: Call) -> None:
    data = base64.b64encode(b"some bytes")
    resource = MediaResource(data=data)
    media: list[Any] = [
        ImageNode(image=data.decode()),
        Node(image_resource=resource),
        Node(audio_resource=resource),
        Node(video_resource=resource),
    ]
    given = [NodeWithScore(node=one) for one in media] + nodes()
    reranker = SecondPassRerank(
        {"method": {"type": "graded"}, "log_level": "debug"},
        llm=Chatting(script=honest, form=GRADED),
    )
    ranked = rank(reranker, given, query_str=QUERY)
    assert numbers(ranked[:5]) == list(ALL)
    assert [one.node_id for one in ranked[5:]] == [one.node_id for one in media]
    assert [type(one.node) for one in ranked[5:]] == [type(one) for one in media]


# ---------------------------------------------------------------------- by a scorer


class Fixed:
    """Gives scores that it has, in the type that a function makes of them."""

    model_name = "fixed"

    def __init__(self, make: Callable[[list[float]], Any], *scores: float) -> None:
        self.make = make
        self.scores = list(scores)
        self.shown: list[list[str]] = []

    def score_pairs(self, query: str, documents: list[str]) -> Any:
        self.shown.append(documents)
        return self.make(self.scores[: len(documents)])


def float16(scores: list[float]) -> Any:
    return np.array(scores, dtype=np.float16)


def float32(scores: list[float]) -> Any:
    return np.array(scores, dtype=np.float32)


def list_of_float32(scores: list[float]) -> Any:
    return [np.float32(score) for score in scores]


def tensor(scores: list[float]) -> Any:
    import torch

    return torch.tensor(scores)


@pytest.mark.parametrize("make", [list, tuple, float16, float32, list_of_float32, tensor])
def test_scores_of_every_number_type_become_floats(
    make: Callable[[list[float]], Any], rank: Call
) -> None:
    make([0.0])  # fails here if there is no torch; the errors of a scorer are only reported
    scorer = Fixed(make, 0.25, 0.875, 0.5, -1.0, 0.75)
    ranked = rank(SecondPassRerank({"method": scorer}), nodes(), query_str=QUERY)
    assert numbers(ranked) == [9, 7, 5, 3, 1]
    assert [one.score for one in ranked] == [0.875, 0.75, 0.5, 0.25, -1.0]
    assert all(type(one.score) is float for one in ranked)
    assert [json.loads(one.to_json())["score"] for one in ranked] == [one.score for one in ranked]


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        (MetadataMode.NONE, "text"),
        (MetadataMode.EMBED, "title: Wombats\n\ntext"),
        (MetadataMode.LLM, "path: /a\n\ntext"),
        (MetadataMode.ALL, "title: Wombats\npath: /a\n\ntext"),
    ],
)
@pytest.mark.parametrize("kind", [TextNode, Document])
def test_metadata_mode_chooses_the_scored_text(
    kind: type[Any], mode: MetadataMode, text: str, rank: Call
) -> None:
    node = kind(
        text="text",
        metadata={"title": "Wombats", "path": "/a"},
        excluded_embed_metadata_keys=["path"],
        excluded_llm_metadata_keys=["title"],
    )
    scorer = Fixed(list, 1.0)
    rank(
        SecondPassRerank({"method": scorer}, metadata_mode=mode),
        [NodeWithScore(node=node)],
        query_str=QUERY,
    )
    assert scorer.shown == [[text]]


def test_a_debug_handler_sees_one_reranking(rank: Call) -> None:
    handler = LlamaDebugHandler(print_trace_on_end=False)
    reranker = SecondPassRerank(
        {"method": Fixed(list, *range(5))}, top_n=2, callback_manager=CallbackManager([handler])
    )
    rank(reranker, nodes(), query_str=QUERY)
    ((start, end),) = handler.get_event_pairs(CBEventType.RERANKING)
    assert start.payload is not None
    assert end.payload is not None
    assert len(start.payload["nodes"]) == 5
    assert (start.payload["top_k"], start.payload["query_str"]) == (2, QUERY)
    assert len(end.payload["nodes"]) == 2


# ---------------------------------------------------------------------- by a cross-encoder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sentence_transformers")
    return tiny_models.write_classifier(tmp_path_factory.mktemp("models") / "cross-encoder")


def cats() -> list[NodeWithScore]:
    texts = ["the cat sat on a mat", "a dog ran", "cat food", "no query", "yes the dog sat"]
    return [
        NodeWithScore(node=TextNode(text=text, metadata={"number": index}), score=0.5)
        for index, text in enumerate(texts)
    ]


def test_a_cross_encoder_scores_as_its_own_library_does(model: Path, rank: Call) -> None:
    import torch
    from sentence_transformers import CrossEncoder

    texts = [one.node.get_content() for one in cats()]
    theirs = CrossEncoder(str(model), device="cpu", activation_fn=torch.nn.Identity())
    scores = theirs.predict([("cat food", text) for text in texts])
    exact = {"method": {"type": "cross_encoder", "precision": "exact"}}
    reranker = SecondPassRerank(exact, model=model, device="cpu", top_n=3)
    ranked = rank(reranker, cats(), query_str="cat food")
    assert numbers(ranked) == [int(index) for index in np.argsort(-scores)[:3]]
    assert [one.score for one in ranked] == pytest.approx(sorted(map(float, scores))[:1:-1])


def test_the_model_is_loaded_once_for_all_queries(model: Path) -> None:
    reranker = SecondPassRerank({"method": "cross_encoder"}, model=model, device="cpu")
    results = []
    for query in ("cat food", "a dog", "cat food"):
        results.append(numbers(reranker.postprocess_nodes(cats(), query_str=query)))
        results.append(numbers(asyncio.run(reranker.apostprocess_nodes(cats(), query_str=query))))
    assert results[0] == results[1] == results[4] == results[5]
    assert results[2] == results[3]


def test_a_device_that_is_not_there_loses_no_node(model: Path, rank: Call) -> None:
    config = {"method": "cross_encoder", "log_level": "debug"}
    reranker = SecondPassRerank(config, model=model, device="cuda:99")
    assert numbers(rank(reranker, cats(), query_str="cat food")) == [0, 1, 2, 3, 4]
    assert reranker.rerank_nodes(cats(), "cat food")[1].status == "unchanged"


def test_model_code_is_not_trusted_by_default(model: Path, tmp_path: Path) -> None:
    """The folder says that its class is in a file beside it, which must not be run."""
    folder = tmp_path / "with-code"
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    config["model_type"] = "not-known-to-anybody"
    config["auto_map"] = {
        "AutoConfig": "own.Config",
        "AutoModelForSequenceClassification": "own.Model",
    }
    (folder / "config.json").write_text(json.dumps(config))
    witness = tmp_path / "was-run"
    (folder / "own.py").write_text(f"open({str(witness)!r}, 'w').close()\n")
    config = {"method": "cross_encoder", "log_level": "debug"}
    ranked, report = SecondPassRerank(config, model=folder, device="cpu").rerank_nodes(
        cats(), "cat"
    )
    assert numbers(ranked) == [0, 1, 2, 3, 4]
    assert report.status == "unchanged"
    assert not witness.exists()
