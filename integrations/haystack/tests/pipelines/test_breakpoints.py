"""Pauses at breakpoints, and documents of every kind."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from haystack import Document, Pipeline
from haystack.components.joiners import DocumentJoiner
from haystack.core.errors import BreakpointException, PipelineRuntimeError
from haystack.core.pipeline.breakpoint import load_pipeline_snapshot
from haystack.dataclasses import ByteStream, ImageContent, SparseEmbedding
from haystack.dataclasses.breakpoints import Breakpoint

from haystack_documents import timeless
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_pipelines import QUERY, Broken, Result, Way, answering, asking, every_way
from rankings import KEYS
from secondpass import RerankError

# ---------------------------------------------------------------------- breakpoints


@pytest.mark.parametrize("where", ["ranker", "middle", "prompt"])
def test_paused_run_resumes_with_the_same_result(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAYSTACK_PIPELINE_SNAPSHOT_SAVE_ENABLED", "true")
    data = {
        "retriever": {"query": QUERY},
        "ranker": {"query": QUERY, "top_k": 3, "order": {"type": "lost_in_the_middle"}},
    }
    shown = {"ranker", "middle"}
    pipeline = answering(SecondPassRanker("lexical"))
    through = pipeline.run(data, include_outputs_from=shown)
    with pytest.raises(BreakpointException):
        pipeline.run(
            data,
            include_outputs_from=shown,
            break_point=Breakpoint(where, snapshot_file_path=str(tmp_path)),
        )
    (file,) = tmp_path.glob("*.json")
    fresh = answering(SecondPassRanker("lexical"))
    resumed = fresh.run({}, pipeline_snapshot=load_pipeline_snapshot(file))
    assert resumed["prompt"] == through["prompt"]
    assert resumed["middle"] == through["middle"]
    assert timeless(resumed["ranker"]) == timeless(through["ranker"])


def test_strict_failure_leaves_a_snapshot() -> None:
    broken = SecondPassRanker({"method": Broken()}, raise_on_failure=True)
    data = asking("retriever", "ranker")
    with pytest.raises(PipelineRuntimeError, match="strict is set") as raised:
        answering(broken).run(data)
    assert isinstance(raised.value.__cause__, RerankError)
    assert raised.value.pipeline_snapshot is not None
    mended = answering(SecondPassRanker("lexical", raise_on_failure=True))
    resumed = mended.run({}, pipeline_snapshot=raised.value.pipeline_snapshot)
    assert resumed == mended.run(data)


def test_documents_of_every_kind_outlive_a_pause(tmp_path: Path) -> None:
    # Haystack's snapshots make mappings of pictures in metadata, and lists of tuples.
    documents = [one for one in of_every_kind() if one.id not in {"picture", "nested"}]
    data = {"ranker": {"query": QUERY, "documents": documents}}
    pipeline = Pipeline()
    pipeline.add_component("ranker", SecondPassRanker("lexical"))
    pipeline.add_component("joiner", DocumentJoiner(sort_by_score=False))
    pipeline.connect("ranker.documents", "joiner.documents")
    with pytest.raises(BreakpointException) as paused:
        pipeline.run(data, break_point=Breakpoint("joiner"))
    file = tmp_path / "snapshot.json"
    assert paused.value.pipeline_snapshot is not None
    file.write_text(json.dumps(paused.value.pipeline_snapshot.to_dict()), encoding="utf-8")
    resumed = pipeline.run({}, pipeline_snapshot=load_pipeline_snapshot(file))
    assert resumed["joiner"] == pipeline.run(data)["joiner"]


def of_every_kind() -> list[Document]:
    image = ByteStream(b"\x89PNG", meta={"page": 1}, mime_type="image/png")
    return [
        Document(id="plain", content="castle", score=0.3),
        Document(id="blob", blob=image, meta={"title": "garden"}, score=0.9),
        Document(id="both", content="garden", blob=image),
        Document(
            id="picture",
            content="castle garden",
            meta={"image": ImageContent(base64_image="aGVsbG8=", mime_type="image/png")},
        ),
        Document(id="dense", content="market", embedding=[0.1, -0.2, 1e-30], score=-2.5),
        Document(
            id="sparse",
            content="the castle again",
            sparse_embedding=SparseEmbedding(indices=[1, 7], values=[0.5, 0.25]),
            score=0.0,
        ),
        Document(
            id="nested",
            content="",
            meta={
                "deep": {"list": [1, {"two": [None, False, 0, ""]}], "tuple": (1, 2)},
                "none": None,
                "type": "some.Class",
                "content": "of the metadata",
                "score": 7,
            },
        ),
        Document(content="nameless \u202e castle \x00 \U0001f3f0", meta={"µ": "ß"}),
    ]


def untouched(document: Document) -> Result:
    """Everything of a document but what a ranking sets."""
    plain = document.to_dict(flatten=False)
    meta = {key: value for key, value in plain["meta"].items() if key not in KEYS}
    return {**plain, "meta": meta, "score": None}


# ---------------------------------------------------------------------- documents


@every_way
@pytest.mark.parametrize("method", ["lexical", "broken"])
def test_documents_of_every_kind_pass_untouched(way: Way, method: str) -> None:
    documents = of_every_kind()
    before = copy.deepcopy([document.to_dict(flatten=False) for document in documents])
    ranker = SecondPassRanker({"method": Broken() if method == "broken" else "lexical"})
    pipeline = Pipeline()
    pipeline.add_component("ranker", ranker)
    pipeline.add_component("joiner", DocumentJoiner())
    pipeline.connect("ranker.documents", "joiner.documents")
    result = way(pipeline, {"ranker": {"query": QUERY, "documents": documents}})
    assert [document.to_dict(flatten=False) for document in documents] == before
    came = {document.id: untouched(document) for document in result["joiner"]["documents"]}
    assert came == {document.id: untouched(document) for document in documents}
    assert len(result["joiner"]["documents"]) == len(documents)
