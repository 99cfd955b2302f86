"""Compared with the cross-encoders of Haystack."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from haystack import Document
from haystack.utils import ComponentDevice

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_objects import QUERY, both, ids, scores


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
        Document(id=f"d{index}", content=text, score=0.5, meta={"title": title, "at": index})
        for index, (text, title) in enumerate(zip(texts, titles, strict=True))
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
    pairs = []
    for one in documents:
        values = [str(one.meta[key]) for key in fields if one.meta.get(key) is not None]
        text = separator.join([*values, one.content or ""])
        pairs.append((query.format(QUERY), document.format(text)))
    function = torch.nn.Sigmoid() if scale else torch.nn.Identity()
    given = encoder(model).predict(pairs, activation_fn=function)
    return sorted(
        ((one.id, float(score)) for one, score in zip(documents, given, strict=True)),
        key=lambda pair: -pair[1],
    )


@cache
def encoder(model: Path) -> Any:
    from sentence_transformers import CrossEncoder

    return CrossEncoder(str(model), device="cpu")


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
    page = (Path(__file__).parents[4] / "docs" / "coming-from.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if "| `SentenceTransformersSim" in line)
    config = ast.literal_eval(row.split("`")[3])
    scale = {"scale_score": True} if "by default: pass `scale_score=True`" in row else {}
    return SecondPassRanker({**config, "depth": None}, **{"model": model, **scale, **parameters})


# ---------------------------------------------------------------------- cross encoders


@pytest.mark.parametrize(("parameters", "computation"), CASES.values(), ids=CASES)
def test_scores_are_those_of_the_cross_encoder(
    model: Path, parameters: dict[str, Any], computation: dict[str, Any]
) -> None:
    # One with an empty string among its metadata apart: its separator is left out here.
    documents = [document for document in passages() if document.meta["title"] != ""]
    expected = computed(model, documents, **computation)
    gaps = [first - second for (_, first), (_, second) in itertools.pairwise(expected)]
    assert min(gaps) > 1e-5, "the order would be one of chance"
    agree(both(ranked_by(model, **parameters), QUERY, documents), expected)


# ---------------------------------------------------------------------- peers of other packages


@pytest.mark.long
@pytest.mark.parametrize("parameters", [given for given, _ in CASES.values()], ids=CASES)
def test_sentence_transformers_similarity_ranker_gives_the_same(
    model: Path, parameters: dict[str, Any]
) -> None:
    peers = pytest.importorskip("haystack_integrations.components.rankers.sentence_transformers")
    documents = [document for document in passages() if document.meta["title"] != ""]
    common = {"device": ComponentDevice.from_str("cpu"), "top_k": 5, **parameters}
    theirs = peers.SentenceTransformersSimilarityRanker(model=str(model), token=None, **common)
    expected = theirs.run(query=QUERY, documents=documents)
    pairs = list(zip(ids(expected), scores(expected), strict=True))
    agree(both(ranked_by(model, **common), QUERY, documents), pairs)
    threshold = pairs[2][1] - 1e-5
    thresholded = theirs.run(query=QUERY, documents=documents, top_k=4, score_threshold=threshold)
    again = both(ranked_by(model, **common), QUERY, documents, top_k=4, score_threshold=threshold)
    assert ids(again) == ids(thresholded) == [pair for pair, _ in pairs[:3]]
