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

import pytest
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.schema import (
    ImageNode,
    MediaResource,
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
    QUERY,
    Asked,
    Chatting,
    Completing,
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


def numbers(ranked: list[NodeWithScore]) -> list[int]:
    return [one.metadata["number"] for one in ranked]


# ---------------------------------------------------------------------- by a language model


def test_an_llm_of_the_settings_is_not_taken_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = Completing(script=honest, form=LISTWISE)
    monkeypatch.setattr(Settings, "_llm", llm)
    with pytest.raises(ConfigurationError, match="llm"):
        SecondPassRerank({"method": {"type": "listwise"}})
    assert llm.sent == []


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
