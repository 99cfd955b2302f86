"""The class, its settings, and conflicts between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from llama_index.core.callbacks import CallbackManager
from llama_index.core.postprocessor.types import BaseNodePostprocessor

from llama_index.postprocessor.secondpass import SecondPassRerank
from llama_nodes import QUERY, node, pandas, plain, texts
from secondpass import ConfigurationError, MissingExtraError, Reranker

# ---------------------------------------------------------------------- the class and its settings


def test_is_a_node_postprocessor_with_a_stable_name() -> None:
    assert issubclass(SecondPassRerank, BaseNodePostprocessor)
    assert SecondPassRerank.class_name() == "SecondPassRerank"
    assert SecondPassRerank.model_json_schema()["properties"]["class_name"]["default"] == (
        "SecondPassRerank"
    )


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="top_k"):
        SecondPassRerank("lexical", top_k=3)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "3", True])
@pytest.mark.parametrize("name", ["top_n", "depth"])
def test_numbers_are_checked(name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=name):
        SecondPassRerank("lexical", **{name: wrong})
    reranker = SecondPassRerank("lexical")
    with pytest.raises(ValueError, match=name):
        setattr(reranker, name, wrong)
    assert getattr(reranker, name) is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("lexicla", "lexical"),
        ({"method": "lexical", "deepth": 3}, "depth"),
        (Path("absent.yaml"), "no such file"),
        (42, "preset name"),
        (None, "preset name"),
    ],
)
def test_a_wrong_reranker_is_refused_at_construction(wrong: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        SecondPassRerank(wrong)


def test_top_n_limits_and_can_be_assigned() -> None:
    reranker = SecondPassRerank("lexical", top_n=2)
    assert len(reranker.postprocess_nodes(pandas(), query_str=QUERY)) == 2
    reranker.top_n = 1
    assert len(reranker.postprocess_nodes(pandas(), query_str=QUERY)) == 1
    reranker.top_n = None
    assert len(reranker.postprocess_nodes(pandas(), query_str=QUERY)) == 3


def test_a_threshold_fitted_for_another_depth_is_refused() -> None:
    fitted = {"method": "lexical", "depth": 100}
    config: dict[str, Any] = {"method": "lexical", "floor": {"at": 0.1, "fitted": fitted}}
    SecondPassRerank(config, depth=100)
    with pytest.raises(ConfigurationError, match=r"floor\.fitted\.depth: was fitted for depth"):
        SecondPassRerank(config, depth=3)


def test_depth_leaves_a_tail() -> None:
    ranked = SecondPassRerank("lexical", depth=1).postprocess_nodes(pandas(), query_str=QUERY)
    assert [one.metadata["rerank_status"] for one in ranked] == ["scored", "tail", "tail"]


@pytest.mark.parametrize(
    ("name", "core_name", "value"),
    [("top_n", "top_k", 2), ("depth", "depth", 2), ("dedupe", "dedupe", False),
     ("strict", "strict", False)],
)  # fmt: skip
def test_conflicts_are_refused_and_named(name: str, core_name: str, value: Any) -> None:
    both = f"(?si){name}.*{core_name}.*"
    given = {core_name: value, "depth": 3} if core_name == "top_k" else {}
    with pytest.raises(ConfigurationError, match=both):
        SecondPassRerank(Reranker("lexical", **given), **{name: value})
    with pytest.raises(ConfigurationError, match=both):
        SecondPassRerank({"method": "lexical", core_name: value}, **{name: value})
    SecondPassRerank({"method": "lexical"}, **{name: value})


def test_the_default_is_the_preset_default() -> None:
    assert SecondPassRerank.model_fields["reranker"].default == "default"
    try:
        reranker = SecondPassRerank()
    except MissingExtraError as error:
        pytest.skip(str(error))
    assert reranker.to_dict()["reranker"] == "default"


def test_conflicts_are_refused_on_assignment_too() -> None:
    reranker = SecondPassRerank(Reranker("lexical", top_k=2))
    with pytest.raises(ValueError, match="top_k"):
        reranker.top_n = 3
    with pytest.raises(ValueError, match="frozen"):
        reranker.reranker = "lexical"


def test_preset_mapping_yaml_and_object_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text("method: {type: lexical}\n")
    sources: list[Any] = [
        "lexical", {"method": "lexical"}, file, str(file), Reranker("lexical"),
    ]  # fmt: skip
    ranked = [
        SecondPassRerank(source).postprocess_nodes(pandas(), query_str=QUERY) for source in sources
    ]
    assert texts(ranked[0])[0] == "The red panda eats bamboo."
    assert all(plain(one) == plain(ranked[0]) for one in ranked)


def test_dedupe_keeps_the_best_of_each_id() -> None:
    nodes = [node("panda", 0.1, id_="a"), node("red panda", 0.9, id_="a"), node("x", 0.5, id_="b")]
    assert len(SecondPassRerank("lexical").postprocess_nodes(nodes, query_str=QUERY)) == 3
    ranked, report = SecondPassRerank("lexical", dedupe=True).rerank_nodes(nodes, QUERY)
    assert texts(ranked) == ["red panda", "x"]
    assert report.left_out == {"duplicate": (0,)}


# ---------------------------------------------------------------------- the distribution


def test_equal_settings_are_equal() -> None:
    reranker, manager = Reranker("lexical"), CallbackManager()
    first = SecondPassRerank(reranker, callback_manager=manager)
    assert first == SecondPassRerank(reranker, callback_manager=manager)
    assert first != SecondPassRerank(reranker, callback_manager=manager, top_n=1)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("topn", "top_n"),
        ("top_k", "top_n"),
        ("topk", "top_n"),
        ("floor", "similarity_cutoff"),
        ("batch_size", "choice_batch_size"),
    ],
)
def test_a_misspelt_parameter_gets_the_nearest_one(name, meant):
    with pytest.raises(
        ConfigurationError, match=f"{name}: unknown argument; did you mean '{meant}'"
    ):
        SecondPassRerank("lexical", **{name: 1})
