"""Local models that cannot be right, through the component."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpoint_folders import without_head
from haystack_documents import QUERY, ids, numbered
from haystack_integrations.components.rankers.secondpass import SecondPassRanker


def test_a_model_that_lacks_weights(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ranker = SecondPassRanker(
        {"method": {"type": "cross_encoder", "model": str(without_head(tmp_path / "model"))}}
    )
    ranker.warm_up()  # a pipeline runs even if it fails
    assert "has no classifier.bias, classifier.weight" in caplog.text
    result = ranker.run(QUERY, numbered(3))
    assert ids(result["documents"]) == ids(numbered(3))
    assert result["report"]["status"] == "unchanged"
    assert [issue["code"] for issue in result["report"]["issues"]] == ["model_not_loaded"]
