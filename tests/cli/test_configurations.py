"""``--preset``, ``--config`` and ``--set``."""

import pytest

from secondpass.cli.options import configuration, with_depth


@pytest.mark.parametrize(
    "setting", ["method..api_key=KEY", "api_key: KEY", "api_key KEY", f"{'a.' * 30}api_key=KEY"]
)
def test_an_invalid_setting_is_named_without_its_value(secondpass, setting):
    told = secondpass("rerank", "--preset", "lexical", "--set", setting)
    assert (told.code, "write KEY=VALUE" in told.flat) == (1, True)
    assert "KEY" not in told.flat.replace("KEY=VALUE", "")


def test_a_preset_and_a_file_at_once_are_a_wrong_call(secondpass):
    outcome = secondpass("rerank", "--preset", "lexical", "--config", "a.yaml")
    assert (outcome.code, outcome.out) == (2, ""), outcome.err
    assert "--preset, --config: give one of them" in outcome.flat


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-p", "BAAI/m"], "use --set method.type=cross_encoder --set method.model=BAAI/m"),
        (
            ["-p", "openai/gpt-4o"],
            "--set method.type=graded --set method.llm.type=openai --set method.llm.model=gpt-4o",
        ),
        (["-p", "contextual"], "--set method.type=endpoint --set method.api=contextual --set "),
        (["-p", "cross_encoder"], "it is a method, use --set method=cross_encoder"),
        (["-p", "a.yaml"], "if it is a file, use --config a.yaml"),
        (
            ["-c", "embedded"],
            "embedded: there is no such file; 'embedded' is a preset, which is a "
            "whole reranker: use --preset embedded",
        ),
        (["-c", "BAAI/m"], "there is no such file; if it is a reranking model, use --set method."),
    ],
)
def test_a_name_of_another_kind_is_explained_by_options(secondpass, arguments, told):
    outcome = secondpass("plan", *arguments)
    assert (outcome.code, told in outcome.flat) == (1, True), outcome.err


@pytest.mark.parametrize(
    "command",
    [
        ("rerank", "in.jsonl", "-q", "x"),
        ("plan",),
        ("query", "x", "--corpus", "in.jsonl", "--rerank"),
        ("eval", "in.jsonl"),
        ("judge", "in.jsonl", "--into", "judged"),
        ("doctor", "--json"),
        ("config", "show"),
    ],
    ids=lambda command: command[0],
)
def test_the_file_of_a_wrong_setting_is_named(secondpass, write, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    write("typo.yaml", "method: lexical\ndept: 3\n")
    write("in.jsonl", [{"text": "x"}])
    option = [] if command[0] == "config" else ["-c"]
    told = secondpass(*command, *option, "typo.yaml")
    assert told.code == 1
    assert "typo.yaml: dept: unknown key; did you mean 'depth'?" in told.flat + told.out


@pytest.mark.parametrize("command", ["serve", "mcp"])
def test_the_model_of_a_wrong_setting_is_named(secondpass, write, command):
    told = secondpass(command, "-c", write("typo.yaml", "method: lexical\ndept: 3\n"))
    assert (told.code, "model 'typo': dept: unknown key" in told.flat) == (1, True)


@pytest.mark.parametrize(("command", "key"), [("rerank", "top_k"), ("serve", "method.k1")])
def test_a_setting_that_is_given_twice_is_a_wrong_call(secondpass, command, key):
    """Only the last would count."""
    told = secondpass(command, "-p", "lexical", "--set", f"{key}=1", "--set", f"{key}=2")
    assert (told.code, told.out) == (2, "")
    assert f"--set {key}: give it once" in told.flat


@pytest.mark.parametrize(
    ("settings", "described"),
    [
        ([], {"method": "lexical"}),
        (["depth=7", "tail=drop"], {"method": {"type": "lexical"}, "depth": 7, "tail": "drop"}),
        (["method.k1=2"], {"method": {"type": "lexical", "k1": 2}}),
        (["prefix=a: b: c"], {"method": {"type": "lexical"}, "prefix": "a: b: c"}),
        (["prefix="], {"method": {"type": "lexical"}, "prefix": ""}),
        (["blend={original: 0.2}"], {"method": {"type": "lexical"}, "blend": {"original": 0.2}}),
    ],
    ids=["none", "two", "nested", "not YAML", "empty", "mapping"],
)
def test_settings_override_a_base(settings, described):
    base = {"method": "lexical"}
    assert configuration(None, None, settings, base=base) == described
    assert base == {"method": "lexical"}


@pytest.mark.parametrize(
    ("described", "top_n", "depth"),
    [({}, None, 50), ({}, 3, 3), ({"depth": 7}, None, 7), ({"depth": 7}, 3, 3),
     ({"depth": None}, None, None)],
    ids=["default", "option", "own", "both", "no limit"],
)  # fmt: skip
def test_depth(described, top_n, depth):
    assert with_depth(described, top_n) == {"depth": depth}
