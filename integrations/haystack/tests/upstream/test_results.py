"""Which documents come out, with which scores; what the model is shown."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from haystack import Document

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_rankers import (
    CROSS_ENCODER,
    QUERY,
    Call,
    Recorder,
    scores,
    sentences,
)


def lengths(*numbers: int) -> list[Document]:
    """Documents of these lengths, with ids that tell them."""
    return [Document(id=f"d{number}", content="x" * number) for number in numbers]


# ---------------------------------------------------------------------- how many come out


def test_a_threshold_on_a_real_model_keeps_equality(model: Path, call: Call) -> None:
    ranker = SecondPassRanker(CROSS_ENCODER, model=model, scale_score=True)
    everything = call(ranker, QUERY, sentences())
    threshold = scores(everything)[2]
    kept = call(ranker, QUERY, sentences(), score_threshold=threshold)
    assert scores(kept) == [score for score in scores(everything) if score >= threshold]
    above = call(ranker, QUERY, sentences(), score_threshold=math.nextafter(threshold, 2))
    assert scores(above) == [score for score in scores(everything) if score > threshold]
    assert len(scores(above)) < len(scores(kept)) < len(scores(everything))


META: dict[str, Any] = {
    "title": "Title",
    "zero": 0,
    "no": False,
    "none": None,
    "empty": "",
    "deep": {"name": "Deep"},
    "a.b": "dotted",
}


# ---------------------------------------------------------------------- what the model is shown


@pytest.mark.parametrize(
    ("settings", "content", "text"),
    [
        ({}, "text", "text"),
        ({"document_prefix": "passage: "}, "text", "passage: text"),
        ({"document_suffix": "\nend"}, "text", "text\nend"),
        ({"document_prefix": "<", "document_suffix": ">"}, "", "<>"),
        ({"meta_fields_to_embed": ["title"]}, "text", "Title\ntext"),
        ({"meta_fields_to_embed": ["zero", "title"]}, "text", "0\nTitle\ntext"),
        ({"meta_fields_to_embed": ["no"]}, "text", "False\ntext"),
        ({"meta_fields_to_embed": ["none", "missing", "title"]}, "text", "Title\ntext"),
        ({"meta_fields_to_embed": ["none", "missing"]}, "text", "text"),
        ({"meta_fields_to_embed": ["empty", "title"]}, "text", "Title\ntext"),
        ({"meta_fields_to_embed": ["deep.name"]}, "text", "Deep\ntext"),
        ({"meta_fields_to_embed": ["a.b"]}, "text", "dotted\ntext"),
        ({"meta_fields_to_embed": ["title"]}, None, "Title"),
        ({"meta_fields_to_embed": ["title"], "embedding_separator": " - "}, "t", "Title - t"),
        ({"meta_fields_to_embed": ["title"], "embedding_separator": ""}, "text", "Titletext"),
        (
            {
                "meta_fields_to_embed": ["title", "zero"],
                "embedding_separator": "|",
                "document_prefix": "p: ",
                "document_suffix": " :s",
            },
            "text",
            "p: Title|0|text :s",
        ),
    ],
)
def test_a_document_is_shown_as_the_parameters_say(
    call: Call, settings: dict[str, Any], content: str | None, text: str
) -> None:
    recorder = Recorder()
    documents = [Document(content=content, meta=META)]
    call(SecondPassRanker({"method": recorder}, **settings), QUERY, documents)
    assert recorder.shown == [text]
    assert recorder.queries == [QUERY]


@pytest.mark.parametrize(
    ("settings", "query"),
    [
        ({"query_prefix": "query: "}, "query: cat food"),
        ({"query_suffix": " ?"}, "cat food ?"),
        ({"query_prefix": "<", "query_suffix": ">", "document_prefix": "d"}, "<cat food>"),
    ],
)
def test_a_query_is_shown_as_the_parameters_say(
    call: Call, settings: dict[str, Any], query: str
) -> None:
    recorder = Recorder()
    call(SecondPassRanker({"method": recorder}, **settings), QUERY, lengths(1, 2))
    assert recorder.queries == [query]


# ---------------------------------------------------------------------- documents and scores


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16])
def test_scores_of_numpy_become_floats_of_python(call: Call, kind: Any) -> None:
    recorder = Recorder(lambda values: np.array(values, dtype=kind))
    result = call(SecondPassRanker({"method": recorder}), QUERY, lengths(2, 3))
    assert [type(score) for score in scores(result)] == [float, float]
    assert [type(document.meta["rerank_score"]) for document in result["documents"]] == [
        float,
        float,
    ]
