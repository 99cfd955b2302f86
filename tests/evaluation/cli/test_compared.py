"""The rerankers that ``secondpass eval`` measures, and their names."""

import sys
from pathlib import Path

import pytest

from fruit_suite import systems
from secondpass import ConfigurationError
from secondpass_evaluation.cli.compared import loadable_rerankers, reranker_specs


def test_one_reranker_is_named_rerank_several_by_their_names(secondpass, given_suite, write):
    one = systems(secondpass("eval", given_suite, "--json", "--preset", "lexical"))
    assert list(one) == ["given", "given+rerank"]
    assert one["given+rerank"]["means"]["nDCG@10"] > one["given"]["means"]["nDCG@10"]
    config = write("mine.yaml", "method: lexical\nfloor: 0.001\n")
    many = systems(
        secondpass(
            "eval",
            given_suite,
            "--json",
            *("--preset", "lexical", "--config", config, "--compare", f"own={config}"),
            *("--compare", config, "--compare", "lexical", "--compare", "again=lexical"),
        )
    )
    assert list(many) == [
        "given",
        *(f"given+{name}" for name in ("lexical", "mine", "own", "mine-2", "lexical-2", "again")),
    ]
    named = systems(secondpass("eval", given_suite, "--json", "--compare", f"own={config}"))
    assert list(named) == ["given", "given+own"]


MINE = Path("a/mine.yaml")
CROSS_ENCODER = {"method": {"type": "cross_encoder", "model": "org/model"}}


@pytest.mark.parametrize(
    ("presets", "configs", "compared", "models", "specs"),
    [
        ([], [], [], [], {}),
        (["lexical"], [], [], [], {"rerank": "lexical"}),
        ([], [MINE], [], [], {"rerank": MINE}),
        ([], [], [], ["org/model"], {"rerank": CROSS_ENCODER}),
        ([], [], ["a/mine.yaml"], [], {"rerank": MINE}),
        ([], [], ["own=a/mine.yaml"], [], {"own": MINE}),
        ([], [], ["own=lexical"], [], {"own": "lexical"}),
        (["lexical"], [], ["lexical"], [], {"lexical": "lexical", "lexical-2": "lexical"}),
        (["fast"], [MINE], [], ["org/model"],
         {"fast": "fast", "mine": MINE, "model": CROSS_ENCODER}),
    ],
    ids=["none", "preset", "file", "model", "path", "named file", "named preset", "twice", "all"],
)  # fmt: skip
def test_names_of_rerankers(presets, configs, compared, models, specs):
    assert reranker_specs(presets, configs, compared, models) == specs


@pytest.mark.parametrize("argument", ["=lexical", "name="])
def test_half_a_comparison_is_refused(argument):
    with pytest.raises(ConfigurationError, match="write NAME=WHAT, or WHAT alone"):
        reranker_specs(None, None, [argument], None)


def test_rerankers_that_cannot_be_loaded_have_a_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    specs = {"words": "lexical", "model": "embedded"}
    loadable, not_run = loadable_rerankers(specs, ["depth=7"], None)
    assert loadable.keys() == {"words"}
    assert loadable["words"]["depth"] == 7
    assert 'pip install "secondpass[embedded]"' in not_run["model"]
    assert loadable_rerankers({}, None, None) == ({}, {"rerank": "no reranker"})
    assert loadable_rerankers({"words": "lexical"}, None, 3)[0]["words"]["depth"] == 3


def test_a_wrong_configuration_is_named(tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text("method: lexical\ndept: 3\n")
    with pytest.raises(ConfigurationError, match=r"wrong\.yaml: dept"):
        loadable_rerankers({"a": path}, None, None)
    with pytest.raises(ConfigurationError, match=r"^b: dept"):
        loadable_rerankers({"b": {"method": "lexical", "dept": 3}}, None, None)
