"""Which documents come out, with which scores; what the model is shown."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from haystack import Document

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_rankers import (
    BY_INDEX,
    CROSS_ENCODER,
    QUERY,
    Call,
    Recorder,
    Says,
    ids,
    indices,
    scores,
    sentences,
)


def lengths(*numbers: int) -> list[Document]:
    """Documents of these lengths, with ids that tell them."""
    return [Document(id=f"d{number}", content="x" * number) for number in numbers]


# ---------------------------------------------------------------------- how many come out


@pytest.mark.parametrize("arguments", [{}, {"top_k": 1}, {"score_threshold": 0.5}])
def test_no_documents_in_none_out(call: Call, arguments: dict[str, Any]) -> None:
    recorder, says = Recorder(), Says(indices(1))
    for ranker in (
        SecondPassRanker({"method": recorder}, raise_on_failure=True),
        SecondPassRanker(BY_INDEX, chat_generator=says, raise_on_failure=True),
    ):
        if "score_threshold" in arguments and ranker.reranker.method.score_kind == "rank":
            continue  # ranks have no threshold
        result = call(ranker, QUERY, [], **arguments)
        assert result["documents"] == []
        assert result["report"]["status"] == "ok"
    assert recorder.queries == []
    assert says.asked == []


@pytest.mark.parametrize(
    ("own", "of_the_call", "expected"),
    [
        (None, None, ["d4", "d3", "d2"]),
        (2, None, ["d4", "d3"]),
        (2, 1, ["d4"]),
        (1, 2, ["d4", "d3"]),
        (9, None, ["d4", "d3", "d2"]),
        (1, 9, ["d4", "d3", "d2"]),
    ],
)
def test_top_k_of_the_call_or_else_of_the_component(
    call: Call, own: int | None, of_the_call: int | None, expected: list[str]
) -> None:
    ranker = SecondPassRanker({"method": Recorder()}, top_k=own)
    assert ids(call(ranker, QUERY, lengths(2, 4, 3), top_k=of_the_call)) == expected


@pytest.mark.parametrize("wrong", [0, -1])
@pytest.mark.parametrize("own", [10, 1, None])
def test_top_k_below_one_is_refused_without_a_call(call: Call, own: int | None, wrong: int) -> None:
    says = Says(indices(1))
    ranker = SecondPassRanker(BY_INDEX, chat_generator=says, top_k=own)
    with pytest.raises(ValueError, match=f"^top_k must be > 0, but got {wrong}$"):
        call(ranker, QUERY, lengths(2, 4), top_k=wrong)
    assert says.asked == []


@pytest.mark.parametrize(
    ("own", "of_the_call", "expected"),
    [
        (3.0, None, ["d4", "d3"]),
        (3.1, None, ["d4"]),
        (None, 3.0, ["d4", "d3"]),
        (4.5, 3.0, ["d4", "d3"]),
        (4.5, 0.0, ["d4", "d3", "d2"]),
        (0.0, None, ["d4", "d3", "d2"]),
        (2.0, 5.0, []),
        (5.0, None, []),
    ],
)
def test_threshold_is_inclusive(
    call: Call, own: float | None, of_the_call: float | None, expected: list[str]
) -> None:
    ranker = SecondPassRanker({"method": Recorder()}, score_threshold=own)
    for _ in range(2):  # a threshold of a call is gone with it
        result = call(ranker, QUERY, lengths(2, 4, 3), score_threshold=of_the_call)
        assert ids(result) == expected
    left_out = result["report"]["left_out"].get("floor", [])
    assert len(left_out) == 3 - len(expected)


def test_a_threshold_on_a_real_model_keeps_equality(model: Path, call: Call) -> None:
    ranker = SecondPassRanker(CROSS_ENCODER, model=model, scale_score=True)
    everything = call(ranker, QUERY, sentences())
    threshold = scores(everything)[2]
    kept = call(ranker, QUERY, sentences(), score_threshold=threshold)
    assert scores(kept) == [score for score in scores(everything) if score >= threshold]
    above = call(ranker, QUERY, sentences(), score_threshold=math.nextafter(threshold, 2))
    assert scores(above) == [score for score in scores(everything) if score > threshold]
    assert len(scores(above)) < len(scores(kept)) < len(scores(everything))


def test_threshold_and_top_k_hold_together(call: Call) -> None:
    ranker = SecondPassRanker({"method": Recorder()}, score_threshold=3.0, top_k=2)
    assert ids(call(ranker, QUERY, lengths(2, 4, 3, 6))) == ["d6", "d4"]
    assert ids(call(ranker, QUERY, lengths(2, 4, 1))) == ["d4"]


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


def test_language_models_are_shown_metadata_too(call: Call) -> None:
    says = Says(indices(2, 1))
    ranker = SecondPassRanker(BY_INDEX, chat_generator=says, meta_fields_to_embed=["title"])
    documents = [Document(content="a", meta={"title": "First"}), Document(content="b")]
    result = call(ranker, QUERY, documents)
    assert [document.content for document in result["documents"]] == ["b", "a"]
    assert '<doc id="1">First\na</doc>' in (says.asked[0][-1].text or "")


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


def test_best_scored_duplicate_is_ranked(call: Call) -> None:
    documents = [
        Document(id="same", content="worse", score=0.1),
        Document(id="same", content="better", score=0.9),
        Document(id="same", content="unscored"),
        Document(id="other", content="other", score=0.2),
    ]
    says = Says(indices(2, 1))
    result = call(SecondPassRanker(BY_INDEX, chat_generator=says), QUERY, documents)
    assert [document.content for document in result["documents"]] == ["other", "better"]
    assert "worse" not in (says.asked[0][-1].text or "")
    assert result["report"]["left_out"] == {"duplicate": [0, 2]}


@pytest.mark.parametrize("reply", [indices(2, 1), indices(2), "nonsense"])
def test_documents_that_came_in_are_left_as_they_were(call: Call, reply: str) -> None:
    documents = [
        Document(
            id=str(index), content=text, score=index / 4, meta={"tags": [index]}, embedding=[0.5]
        )
        for index, text in enumerate(["a", "b"])
    ]
    before = copy.deepcopy([document.to_dict(flatten=False) for document in documents])
    result = call(SecondPassRanker(BY_INDEX, chat_generator=Says(reply)), QUERY, documents)
    assert [document.to_dict(flatten=False) for document in documents] == before
    assert sorted(ids(result)) == ["0", "1"]
    assert all(document.embedding == [0.5] for document in result["documents"])
