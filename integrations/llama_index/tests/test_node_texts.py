"""The text of a node that is scored, by kind and metadata mode."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.schema import (
    Document,
    ImageNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeWithScore,
    TextNode,
)

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_nodes import QUERY, ByLength, Fixed, node, pandas, with_scorer
from secondpass import Reranker
from secondpass.effects import ListScores


def test_every_kind_of_node_comes_back() -> None:
    nodes = [
        NodeWithScore(node=ImageNode(image_path="panda.png"), score=0.9),
        NodeWithScore(node=Document(text="A red panda.")),
        NodeWithScore(node=TextNode(text="A car."), score=None),
        NodeWithScore(node=Document(text=""), score=0.1),
        NodeWithScore(node=ImageNode(text="A red panda, sleeping.", image_path="p.png")),
    ]
    scorer = ByLength()
    ranked, report = with_scorer(scorer).rerank_nodes(nodes, QUERY)
    assert [type(one.node) for one in ranked] == [
        ImageNode,
        Document,
        TextNode,
        ImageNode,
        Document,
    ]
    assert [one.metadata["rerank_status"] for one in ranked] == ["scored"] * 3 + ["unjudged"] * 2
    assert [issue.code for issue in report.issues] == ["no_text"]
    assert ranked[3].node.image_path == "panda.png"


@pytest.mark.parametrize(
    ("resource", "status"),
    [
        (MediaResource(text="red panda"), "scored"),
        (MediaResource(text=""), "scored"),
        (MediaResource(data=b"eA=="), "unjudged"),
        (None, "unjudged"),
    ],
)
def test_a_resource_is_judged_where_it_has_a_text(
    resource: MediaResource | None, status: str
) -> None:
    nodes = [*pandas(), NodeWithScore(node=Node(id_="odd", text_resource=resource))]
    ranked = SecondPassRerank("lexical").postprocess_nodes(nodes, query_str=QUERY)
    (odd,) = [one for one in ranked if one.node_id == "odd"]
    assert odd.metadata["rerank_status"] == status


def test_the_metadata_mode_chooses_the_text() -> None:
    source = node(
        "text", metadata={"title": "red", "path": "x"}, excluded_embed_metadata_keys=["path"]
    )
    seen = {}
    for mode in MetadataMode:
        scorer = Fixed(1.0)
        SecondPassRerank(Reranker(scorer), metadata_mode=mode).postprocess_nodes(
            [source], None, "q"
        )
        seen[mode] = scorer.seen[0][0]
    assert seen[MetadataMode.NONE] == "text"
    assert seen[MetadataMode.EMBED] == "title: red\n\ntext"
    assert seen[MetadataMode.ALL] == "title: red\npath: x\n\ntext"


class Spans:
    """Says that the last three characters of each text match best."""

    model_name = "spans"

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        raise AssertionError("score_lists is there")

    def score_lists(self, requests: Any, deadline: float | None) -> Any:
        yield [
            ListScores([1.0] * len(texts), spans=[(len(text) - 3, len(text)) for text in texts])
            for _, texts in requests
        ]


@pytest.mark.parametrize("mode", list(MetadataMode))
@pytest.mark.parametrize(
    ("text", "span"), [("a text", [3, 6]), ("", None), ("ext", [0, 3]), (" \n", None)]
)
def test_spans_are_those_of_the_text_without_metadata(
    mode: MetadataMode, text: str, span: list[int] | None
) -> None:
    source = node(text, metadata={"title": "red"})
    rerank = SecondPassRerank(Reranker(Spans()), metadata_mode=mode)
    (result,) = rerank.postprocess_nodes([source], None, "q")
    assert result.metadata.get("rerank_span") == span
    assert ("rerank_span" in result.node.excluded_llm_metadata_keys) == (span is not None)


@pytest.mark.parametrize("mode", list(MetadataMode))
@pytest.mark.parametrize("template", ["{metadata_str}\n\n{content}", "{content}\n{metadata_str}"])
def test_spans_of_texts_with_white_space_around(mode: MetadataMode, template: str) -> None:
    text = "\n  Cats sleep here. Dogs bark there.\n"
    nodes = [node(text, metadata={"a": "b"}, text_template=template)]
    config = {"method": {"type": "lexical"}, "passages": {"size": 24, "overlap": 0}}
    rerank = SecondPassRerank(config, metadata_mode=mode)
    (found,) = rerank.postprocess_nodes(nodes, None, "bark")
    part = text[slice(*found.metadata["rerank_span"])]
    assert "bark" in part
    assert part.strip() == part
