"""Saving, loading and copies."""

from __future__ import annotations

from pathlib import Path

import pytest
from haystack import Document

from contract_haystack import ADAPTER
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_objects import QUERY
from secondpass import ConfigurationError, Reranker


def again(ranker: SecondPassRanker) -> SecondPassRanker:
    """The ranker as it comes back from a saved pipeline, of which nothing changed."""
    text = ADAPTER.save(ranker)
    loaded = ADAPTER.load(text)
    assert ADAPTER.save(loaded) == text
    return loaded


def test_a_configuration_may_keep_duplicates(tmp_path: Path) -> None:
    twice = [Document(id="a", content="1"), Document(id="a", content="1")]
    file = tmp_path / "keep.yaml"
    file.write_text("method: lexical\ndedupe: false\n", encoding="utf-8")
    for reranker in ({"method": "lexical", "dedupe": False}, file):
        ranker = SecondPassRanker(reranker)
        assert len(ranker.run(QUERY, twice)["documents"]) == 2
        assert len(again(ranker).run(QUERY, twice)["documents"]) == 2
    assert len(SecondPassRanker(file, dedupe=True).run(QUERY, twice)["documents"]) == 1
    with pytest.raises(ConfigurationError, match="dedupe"):
        SecondPassRanker({"method": "lexical", "dedupe": False}, dedupe=True)
    for ready in (Reranker("lexical"), Reranker("lexical", dedupe=True)):
        assert len(again(SecondPassRanker(ready)).run(QUERY, twice)["documents"]) == 1
        ranker = SecondPassRanker(ready, dedupe=False)
        assert len(again(ranker).run(QUERY, twice)["documents"]) == 2


def test_no_saved_key_looks_like_a_class_to_import() -> None:
    def types(value: object) -> list[object]:
        if isinstance(value, dict):
            own = [value["type"]] if "type" in value else []
            return own + [found for item in value.values() for found in types(item)]
        return [found for item in value for found in types(item)] if isinstance(value, list) else []

    reranker = Reranker.from_config({"method": "lexical", "order": "lost_in_the_middle"})
    saved = SecondPassRanker(reranker).to_dict()["init_parameters"]
    assert types(saved) == ["lexical", "lost_in_the_middle"]
