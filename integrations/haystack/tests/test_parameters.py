"""Parameters under their usual names, and conflicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from haystack import Document

from haystack_documents import QUERY, Numbers, ids
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import ConfigurationError


def test_standard_parameters() -> None:
    documents = [
        Document(id="a", content="0.1", meta={"title": "A", "year": 0}),
        Document(id="b", content="0.9", meta={"title": "B"}),
    ]
    scorer = Numbers()
    ranker = SecondPassRanker(
        {"method": scorer},
        score_threshold=0.5,
        meta_fields_to_embed=["title", "year"],
        embedding_separator=" | ",
    )
    result = ranker.run(QUERY, documents)
    assert scorer.seen == [["A | 0 | 0.1", "B | 0.9"]]
    assert ids(result["documents"]) == ["b"]
    assert result["report"]["left_out"] == {"floor": [0]}


def test_settings_that_do_not_meet_are_joined(tmp_path: Path) -> None:
    config = {"method": "lexical", "render": {"separator": " "}, "floor": 0.1}
    mapped = SecondPassRanker(config, meta_fields_to_embed=["title"])
    assert mapped.reranker.render.separator == " "
    assert tuple(mapped.reranker.render.fields) == ("title", "text")
    file = tmp_path / "ranker.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    assert SecondPassRanker(file, score_threshold=0.2).reranker.floor == 0.2
    assert SecondPassRanker("lexical", score_threshold=0.2).reranker.floor == 0.2
    assert SecondPassRanker("lexical", meta_fields_to_embed=[]).reranker.render.fields == ("text",)


@pytest.mark.parametrize("names", ["title", ["title", "text"], ["id"], ["score"]])
def test_fields_that_would_mean_something_else_are_refused(names: Any) -> None:
    with pytest.raises(ConfigurationError, match="meta_fields_to_embed"):
        SecondPassRanker("lexical", meta_fields_to_embed=names)
