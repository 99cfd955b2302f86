"""Flat parameters: where they belong, and conflicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, TextNode
from pydantic import BaseModel, SecretStr, ValidationError

from fake_provider import FakeProvider
from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_index.postprocessor.secondpass.parameters import holds_a_key, written_order
from llama_llms import BEST_FIRST, KEY, QUERY, asking, lengths, nodes_of, scripted
from secondpass import ConfigurationError, Reranker
from secondpass.ranking.ordering import LostInTheMiddle


def core(reranker: SecondPassRerank) -> dict[str, Any]:
    """The whole configuration, as the core writes it."""
    return reranker._reranker.to_config()


WOMBATS = "where do wombats live"
GOOD = "Wombats live in burrows in the forests of Australia."
BAD = ["Bread is baked from flour and water.", "The stock market fell on Monday."]


@pytest.mark.parametrize("assigned", [False, True])
def test_a_threshold_holds_for_lists_of_any_length(assigned: bool) -> None:
    # By minmax, the score of a single node is 0.5, and that of the best of any two is 1.
    reranker = SecondPassRerank("embedded", similarity_cutoff=None if assigned else 0.6)
    if assigned:
        reranker.similarity_cutoff = 0.6

    def ranked(*texts: str) -> list[NodeWithScore]:
        nodes = [NodeWithScore(node=TextNode(text=text)) for text in texts]
        return reranker.postprocess_nodes(nodes, query_str=WOMBATS)

    (alone,) = ranked(GOOD)
    assert (alone.score, alone.metadata["rerank_final_score"]) == (0.5, 0.5)
    assert alone.metadata["rerank_score"] > 0.6
    assert [node.text for node in ranked(*BAD, GOOD)] == [GOOD]
    assert ranked(*BAD) == []


def test_ranks_have_no_threshold() -> None:
    with pytest.raises(ConfigurationError, match=r"similarity_cutoff: .*are ranks"):
        SecondPassRerank("listwise_guided", similarity_cutoff=0.5)
    ready = Reranker.from_preset("listwise_guided")
    with pytest.raises(ConfigurationError, match=r"similarity_cutoff: .*are ranks"):
        SecondPassRerank(ready, similarity_cutoff=0.5)
    reranker = SecondPassRerank("listwise_guided")
    with pytest.raises(ConfigurationError, match=r"similarity_cutoff: .*use top_k"):
        reranker.similarity_cutoff = 0.5


LANDS = [
    # the reranker; a parameter; where the setting stands
    ("default", "model", "some/model", "method.model"),
    ("default", "device", "cpu", "method.device"),
    ("default", "choice_batch_size", 4, "method.batch_size"),
    ({"method": "cross_encoder"}, "model", "some/model", "method.model"),
    ("graded_passages", "model", "gemini-x", "method.llm.model"),
    ("graded_passages", "choice_batch_size", 5, "method.batch_size"),
    ("listwise_guided", "model", "claude-x", "method.llm.model"),
    ("listwise_guided", "choice_batch_size", 5, "method.window"),
    ("cohere", "model", "rerank-x", "method.model"),
    ("cohere", "choice_batch_size", 5, "method.batch_size"),
    ("tei", "choice_batch_size", 5, "method.batch_size"),
    ("default", "strict", True, "strict"),
    ("accurate", "strict", True, "strict"),
    ({"method": {"type": "lexical", "k1": 0.5}}, "strict", True, "strict"),
]


@pytest.mark.parametrize(("reranker", "name", "value", "place"), LANDS)
def test_a_parameter_lands_in_the_configuration(
    reranker: Any, name: str, value: Any, place: str
) -> None:
    created = SecondPassRerank(reranker, **{name: value})
    results: Any = core(created)
    for step in place.split("."):
        results = results[step]
    assert results == value
    assert getattr(created, name) == value
    # Nothing else has changed, and what is written has the setting once.
    again = SecondPassRerank.from_json(created.to_json())
    assert core(again) == core(created)
    assert getattr(again, name) == value
    assert core(SecondPassRerank(reranker)) != core(created)


def test_a_model_may_be_a_path(tmp_path: Path) -> None:
    reranker = SecondPassRerank(model=tmp_path)
    assert reranker.model == str(tmp_path)
    assert core(reranker)["method"]["model"] == str(tmp_path)


@pytest.mark.parametrize(
    ("method", "asks"),
    [
        ({"type": "endpoint", "api": "jina", "model": "m"}, "jina"),
        ({"type": "endpoint", "api": "tei"}, "tei"),
        ({"type": "graded"}, "openai"),
        ({"type": "listwise"}, "openai"),
    ],
)
@pytest.mark.parametrize("wrapped", [str, SecretStr])
def test_an_api_key_reaches_the_provider(
    method: dict[str, Any], asks: str, wrapped: Any, provider: FakeProvider
) -> None:
    provider.play()
    url = provider.base_url(asks)
    if method["type"] == "endpoint":
        method = {**method, "base_url": url}
    else:
        method = {**method, "llm": {"type": "openai", "model": "m", "base_url": url}}
    reranker = SecondPassRerank({"method": method}, api_key=wrapped(KEY))
    _, report = reranker.rerank_nodes(nodes_of(), QUERY)
    assert report.status == "ok"
    assert {request.key for request in provider.requests} == {KEY}
    reranker._reranker.close()


def test_an_api_key_of_a_cross_encoder_is_its_hub_token() -> None:
    reranker = SecondPassRerank(api_key=KEY)
    assert reranker._reranker.method.scorer.token.reveal() == KEY  # type: ignore[attr-defined]


CONFLICTS = [
    # the reranker; a parameter; both names
    ({"method": "lexical", "floor": 0.1}, {"similarity_cutoff": 0.5}, "floor"),
    ({"method": {"type": "cross_encoder", "model": "m"}}, {"model": "x"}, "method.model"),
    ({"method": {"type": "cross_encoder", "device": "cpu"}}, {"device": "cpu"}, "method.device"),
    ({"method": {"type": "graded", "llm": {"type": "openai", "model": "m"}}}, {"model": "x"},
     "method.llm.model"),
    ({"method": {"type": "listwise", "window": 4, "llm": {"type": "openai", "model": "m"}}},
     {"choice_batch_size": 5}, "method.window"),
    ({"method": {"type": "graded", "batch_size": 4, "llm": {"type": "openai", "model": "m"}}},
     {"choice_batch_size": 5}, "method.batch_size"),
    ({"method": {"type": "endpoint", "api": "cohere", "model": "m", "api_key": "k"}},
     {"api_key": KEY}, "method.api_key"),
    (Reranker({"type": "lexical"}), {"model": "x"}, "method.model"),
    (Reranker({"type": "lexical"}), {"device": "cpu"}, "method.device"),
    (Reranker({"type": "lexical"}), {"choice_batch_size": 5}, "method.batch_size"),
    (Reranker({"type": "lexical"}), {"api_key": KEY}, "ready Reranker"),
    (Reranker({"type": "lexical"}, floor=0.0), {"similarity_cutoff": 0.0}, "floor"),
    ("lexical", {"model": "x"}, "lexical"),
    ("lexical", {"device": "cpu"}, "lexical"),
    ("lexical", {"choice_batch_size": 5}, "lexical"),
    ("lexical", {"api_key": KEY}, "lexical"),
    ("cohere", {"device": "cpu"}, "endpoint"),
    ("graded_passages", {"device": "cpu"}, "graded"),
    ("accurate", {"model": "x"}, "cascade.*its stages do"),
    ({"method": object()}, {"model": "x"}, "its own settings"),
]  # fmt: skip


@pytest.mark.parametrize(("reranker", "settings", "other"), CONFLICTS)
def test_setting_without_a_place_is_refused(
    reranker: Any, settings: dict[str, Any], other: str
) -> None:
    (name,) = settings
    with pytest.raises(ConfigurationError, match=f"(?s){name}.*{other}") as caught:
        SecondPassRerank(reranker, **settings)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("name", ["model", "api_key"])
def test_a_given_llm_has_its_own_model_and_key(name: str) -> None:
    for reranker in ("graded_passages", {"method": "listwise"}):
        with pytest.raises(
            ConfigurationError, match=f"{name}: the language model object has its own settings"
        ):
            SecondPassRerank(reranker, llm=scripted(), **{name: "x"})
    assert (
        SecondPassRerank("graded_passages", llm=scripted(), choice_batch_size=2).choice_batch_size
        == 2
    )


def test_all_conflicts_in_one_error() -> None:
    with pytest.raises(ConfigurationError) as caught:
        SecondPassRerank("lexical", model="x", device="cpu", api_key=KEY, choice_batch_size=2)
    places = [problem.path for problem in caught.value.problems]
    assert places == [("model",), ("device",), ("choice_batch_size",), ("api_key",)]


def test_call_settings_take_effect() -> None:
    graded = asking("graded", scripted())
    assert lengths(graded.postprocess_nodes(nodes_of(), None, QUERY)) == BEST_FIRST
    graded.top_n = 2
    assert lengths(graded.postprocess_nodes(nodes_of(), None, QUERY)) == [9, 7]
    graded.top_n = None
    graded.similarity_cutoff = 5
    assert lengths(graded.postprocess_nodes(nodes_of(), None, QUERY)) == [9, 7, 5]
    graded.similarity_cutoff = None
    graded.depth = 2
    assert lengths(graded.postprocess_nodes(nodes_of(), None, QUERY)) == [7, 3, 1, 9, 5]
    graded.depth = None
    twice = nodes_of()
    twice[1].node.id_ = "n0"
    graded.dedupe = True
    assert lengths(graded.postprocess_nodes(twice, None, QUERY)) == [9, 5, 3, 1]
    graded.dedupe = None
    assert lengths(graded.postprocess_nodes(twice, None, QUERY)) == BEST_FIRST


def test_call_settings_override_presets_and_files(tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("{method: graded, top_k: 1, floor: 9, depth: 1, dedupe: true}")
    created = SecondPassRerank(
        file, llm=scripted(), top_n=4, similarity_cutoff=2, depth=5, dedupe=False
    )
    assert lengths(created.postprocess_nodes(nodes_of(), None, QUERY)) == [9, 7, 5, 3]


def test_assignments_are_checked_as_constructions_are() -> None:
    created = SecondPassRerank({"method": "lexical", "floor": 0.1, "dedupe": True})
    for name, value, other in [("similarity_cutoff", 0.5, "floor"), ("dedupe", False, "dedupe")]:
        with pytest.raises(ValueError, match=f"(?s){name}.*{other}"):
            setattr(created, name, value)
        assert getattr(created, name) is None
    for wrong in ("high", float("nan"), float("inf")):
        with pytest.raises(ValueError, match="similarity_cutoff"):
            created.similarity_cutoff = wrong  # type: ignore[assignment]


@pytest.mark.parametrize(
    "name", ["reranker", "model", "device", "choice_batch_size", "api_key", "strict", "llm"]
)
def test_construction_parameters_are_frozen(name: str) -> None:
    created = SecondPassRerank("lexical")
    before = getattr(created, name)
    with pytest.raises(ValidationError, match=rf"(?s){name}.*frozen"):
        setattr(created, name, None)
    assert getattr(created, name) == before


@pytest.mark.parametrize("name", ["choice_select_prompt", "verbose", "trust_remote_code"])
def test_a_parameter_of_another_reranker_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name) as caught:
        SecondPassRerank("lexical", **{name: KEY})
    assert KEY not in str(caught.value)


def test_schema_has_every_serialised_setting() -> None:
    schema = json.loads(json.dumps(SecondPassRerank.model_json_schema()))
    told = set(schema["properties"])
    assert told >= set(SecondPassRerank("lexical").to_dict())
    assert schema["additionalProperties"] is False
    assert all("description" in one for name, one in schema["properties"].items()
               if name not in {"callback_manager", "class_name"})  # fmt: skip


def test_it_can_be_a_field_of_another_model() -> None:
    class Pipeline(BaseModel):
        behind: SecondPassRerank
        others: list[BaseNodePostprocessor] = []

    postprocessor = SecondPassRerank("lexical", top_n=2, similarity_cutoff=0.0)
    pipeline = Pipeline(behind=postprocessor, others=[postprocessor])
    assert pipeline.behind is postprocessor
    assert pipeline.model_dump()["behind"] == postprocessor.to_dict()
    again = Pipeline.model_validate_json(pipeline.model_dump_json(include={"behind"}))
    assert again.behind.to_dict() == postprocessor.to_dict()
    assert lengths(again.behind.postprocess_nodes(nodes_of(), None, QUERY)) == [3, 7]
    assert "behind" in Pipeline.model_json_schema()["properties"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"llm": [{"api_key": "sk"}]}, True),
        ({"apikey": SecretStr("sk")}, True),
        ({"default_headers": {"X": "sk"}}, True),
        ({"hub_token": "sk"}, True),
        ({"api_key": "", "headers": {}}, False),
        ({"tokens": 5, "max_tokens": 7}, False),
        ("api_key", False),
    ],
    ids=repr,
)
def test_what_holds_a_key(value: Any, expected: bool) -> None:
    assert holds_a_key(value) == expected


@pytest.mark.parametrize("order", [None, "lost_in_the_middle", {"type": "lost_in_the_middle"}])
def test_orders_that_json_can_hold_are_written_as_they_are(order: Any) -> None:
    assert written_order(order) == order


def test_other_orders_are_written_by_their_settings() -> None:
    assert written_order(LostInTheMiddle()) == {"type": "lost_in_the_middle"}
