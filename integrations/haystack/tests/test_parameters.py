"""Parameters under their usual names, and conflicts."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from haystack import Document, Pipeline
from haystack.core.errors import PipelineRuntimeError

from haystack_documents import QUERY, Answers, Numbers, castles, contents, ids, numbered
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import ConfigurationError, InputError, Reranker, RerankError


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


WOMBATS = "where do wombats live"
GOOD = "Wombats live in burrows in the forests of Australia."
BAD = ["Bread is baked from flour and water.", "The stock market fell on Monday."]


@pytest.mark.parametrize("at_run_time", [False, True])
def test_a_threshold_holds_for_lists_of_any_length(at_run_time: bool) -> None:
    # By minmax, the score of a single document is 0.5, and that of the best of any two is 1.
    threshold = {"score_threshold": 0.6}
    ranker = SecondPassRanker("embedded", **({} if at_run_time else threshold))

    def ranked(*texts: str) -> list[Document]:
        documents = [Document(content=text) for text in texts]
        result = ranker.run(WOMBATS, documents, **(threshold if at_run_time else {}))
        assert result["report"]["threshold"] == {"at": 0.6, "on": "rerank"}
        kept: list[Document] = result["documents"]
        return kept

    (alone,) = ranked(GOOD)
    assert (alone.score, alone.meta["rerank_final_score"]) == (0.5, 0.5)
    assert alone.meta["rerank_score"] > 0.6
    assert contents(ranked(*BAD, GOOD)) == [GOOD]
    assert ranked(*BAD) == []


def test_ranks_have_no_threshold() -> None:
    with pytest.raises(ConfigurationError, match=r"score_threshold: .*are ranks"):
        SecondPassRanker("listwise_guided", score_threshold=0.5)
    ranker = SecondPassRanker("listwise_guided")
    with pytest.raises(ConfigurationError, match=r"score_threshold: .*use top_k"):
        ranker.score_threshold = 0.5
    with pytest.raises(InputError, match=r"are ranks, .*use top_k"):
        ranker.run(QUERY, castles(), score_threshold=0.5)


def test_a_threshold_fitted_for_another_depth_is_refused() -> None:
    fitted = {"method": "lexical", "depth": 100}
    config: dict[str, Any] = {"method": "lexical", "floor": {"at": 0.1, "fitted": fitted}}
    SecondPassRanker(config, depth=100)
    with pytest.raises(ConfigurationError, match=r"floor\.fitted\.depth: was fitted for depth"):
        SecondPassRanker(config, depth=3)


def test_depth_bounds_what_is_judged() -> None:
    scorer = Numbers()
    documents = numbered(1, 2, 3)
    ranker = SecondPassRanker({"method": scorer}, depth=2)
    result = ranker.run(QUERY, documents)
    assert contents(result["documents"]) == ["2", "1", "3"]
    assert result["documents"][2].meta["rerank_status"] == "tail"
    assert contents(ranker.run(QUERY, documents, depth=3)["documents"]) == ["3", "2", "1"]
    assert [len(seen) for seen in scorer.seen] == [2, 3]


@pytest.mark.parametrize(
    "answer",
    [OSError("gone"), [], [1.0], [math.nan] * 3, "abc", None, [1.0] * 4],
    ids=["raises", "empty", "short", "nan", "text", "nothing", "long"],
)
def test_raise_on_failure_raises_errors(answer: object) -> None:
    documents = numbered(1, 2, 3)
    result = SecondPassRanker({"method": Answers(answer)}).run(QUERY, documents)
    assert ids(result["documents"]) == ids(documents)
    assert result["report"]["status"] == "unchanged"
    assert result["report"]["issues"]
    strict = SecondPassRanker({"method": Answers(answer)}, raise_on_failure=True)
    with pytest.raises(RerankError):
        strict.run(QUERY, documents)
    with pytest.raises(RerankError):
        asyncio.run(strict.run_async(QUERY, documents))


def test_pipeline_fails_only_under_raise_on_failure() -> None:
    for raising in (False, True):
        pipeline = Pipeline()
        ranker = SecondPassRanker({"method": Answers(OSError())}, raise_on_failure=raising)
        pipeline.add_component("ranker", ranker)
        data = {"ranker": {"query": QUERY, "documents": castles()}}
        if raising:
            with pytest.raises(PipelineRuntimeError, match="strict"):
                pipeline.run(data)
        else:
            assert ids(pipeline.run(data)["ranker"]["documents"]) == ids(castles())


@pytest.mark.parametrize(
    ("flat", "mapping", "setting"),
    [
        ({"score_threshold": 0.0}, {"floor": 0.1}, "floor"),
        ({"depth": 3}, {"depth": 3}, "depth"),
        ({"raise_on_failure": True}, {"strict": False}, "strict"),
        ({"meta_fields_to_embed": ["title"]}, {"render": {"fields": ["text"]}}, "render.fields"),
        ({"embedding_separator": " "}, {"render": {"separator": "-"}}, "render.separator"),
    ],
)
def test_a_setting_given_twice_is_refused(
    flat: dict[str, Any], mapping: dict[str, Any], setting: str
) -> None:
    (name,) = flat
    with pytest.raises(ConfigurationError, match=rf"{name}.*'{setting}'"):
        SecondPassRanker({"method": "lexical", **mapping}, **flat)
    with pytest.raises(ConfigurationError, match=rf"{name}.*ready Reranker.*'{setting}'"):
        SecondPassRanker(Reranker.from_preset("lexical"), **flat)


def test_every_conflict_in_one_error() -> None:
    with pytest.raises(ConfigurationError) as caught:
        SecondPassRanker(
            {"method": "lexical", "floor": 0.1, "depth": 5}, score_threshold=0.2, depth=4
        )
    assert [problem.path for problem in caught.value.problems] == [("depth",), ("score_threshold",)]


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


@pytest.mark.parametrize("wrong", ["lexicall", {"method": "lexicall"}, {"methods": 1}, 7, None])
def test_a_wrong_configuration_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        SecondPassRanker(wrong)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("topn", "top_k"),
        ("top_n", "top_k"),
        ("topk", "top_k"),
        ("floor", "score_threshold"),
        ("strict", "raise_on_failure"),
        ("batchsize", "batch_size"),
    ],
)
def test_a_misspelt_parameter_gets_the_nearest_one(name, meant):
    with pytest.raises(
        TypeError, match=f"Ranker: {name}: unknown argument; did you mean '{meant}'"
    ):
        SecondPassRanker("lexical", **{name: 1})
