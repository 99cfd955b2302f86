"""Local models that cannot be right, through the postprocessor."""

from __future__ import annotations

from pathlib import Path

from llama_index.core.schema import NodeWithScore, TextNode

from checkpoint_folders import without_head
from llama_index.postprocessor.secondpass import SecondPassRerank


def test_a_model_that_lacks_weights(tmp_path: Path) -> None:
    model = {"type": "cross_encoder", "model": str(without_head(tmp_path / "model"))}
    nodes = [NodeWithScore(node=TextNode(text=text), score=1.0) for text in ("one", "two")]
    ranked, report = SecondPassRerank({"method": model}).rerank_nodes(nodes, "query")
    assert [node.text for node in ranked] == ["one", "two"]
    assert report.status == "unchanged"
    [issue] = report.issues
    assert issue.code == "model_not_loaded"
    assert "classifier.weight" in issue.message
