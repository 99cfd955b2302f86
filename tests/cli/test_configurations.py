"""``--preset``, ``--config`` and ``--set``."""

import json

import pytest

from command_requests import requests
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
    if command == "mcp":
        pytest.importorskip("mcp")
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


BLEND = "write --set blend.original={} --set blend.normalize=minmax"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        *(
            (
                f"blend={word}",
                "has settings of its own; to switch it off, write --set blend=null; otherwise "
                + BLEND.format(0.3),
            )
            for word in ("none", "off", "false", "No")
        ),
        ("blend=0.4", "has settings of its own; " + BLEND.format(0.4)),
        ("blend=foo", "has settings of its own; " + BLEND.format(0.3)),
        ("limits=5", "has settings of its own; write --set limits.NAME=5, where NAME is one of: "),
        (
            "limits=none",
            "has settings of its own; to switch it off, write --set limits=null; otherwise write "
            "--set limits.NAME=…, where NAME is one of: ",
        ),
        ("depth=none", "must be a whole number, not 'none'; to switch it off, write null"),
        ("limits.deadline=off", "must be a number, not 'off'; to switch it off, write null"),
        ("fallback=none", "no method is named 'none'; to switch it off, write []"),
    ],
)
def test_what_switches_a_setting_off_is_named(secondpass, write, setting, message):
    key = setting.partition("=")[0]
    told = secondpass("rerank", write("in.jsonl", requests(1)), "-p", "lexical", "--set", setting)
    assert (told.code, told.flat.startswith(f"secondpass: --set {key}: {message}")) == (1, True)
    if "write --set" not in message:
        fixed = f"{key}={message.rpartition('write ')[2]}"
        again = secondpass("rerank", write("in.jsonl", requests(1)), "-p", "lexical", "-s", fixed)
        assert again.code == 0, again.err


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "model=m",
            "model: unknown key; write --set method.type=cross_encoder --set method.model=…",
        ),
        ("timeout=3", "timeout: unknown key; write --set limits.deadline=…"),
        ("method.depth=3", "method.depth: unknown key; write --set depth=…"),
        ("verbose=1", "verbose: unknown key; leave it out; the result has a report"),
    ],
)
def test_hints_about_set_name_options(secondpass, write, setting, message):
    told = secondpass("rerank", write("in.jsonl", requests(1)), "-p", "lexical", "--set", setting)
    assert (told.code, told.err) == (1, f"secondpass: --set {message}\n")


def test_a_hint_about_a_file_is_not_about_set(secondpass, write):
    config = write("c.yaml", "method: lexical\nmodel: m\n")
    told = secondpass("rerank", write("in.jsonl", requests(1)), "-c", config, "--set", "timeout=3")
    file, set_ = told.err.splitlines()[1:]
    assert "model: unknown key; it is a setting of the method" in file
    assert set_.endswith("--set timeout: unknown key; write --set limits.deadline=…")


def test_the_suggested_blend_is_accepted(secondpass, write):
    settings = BLEND.format(0.3).removeprefix("write ").split()
    told = secondpass("rerank", write("in.jsonl", requests(1)), "-p", "lexical", *settings)
    assert told.code == 0, told.err


@pytest.mark.parametrize(
    ("described", "top_n", "depth"),
    [({}, None, 50), ({}, 3, 3), ({"depth": 7}, None, 7), ({"depth": 7}, 3, 3),
     ({"depth": None}, None, None)],
    ids=["default", "option", "own", "both", "no limit"],
)  # fmt: skip
def test_depth(described, top_n, depth):
    assert with_depth(described, top_n) == {"depth": depth}


def test_a_store_in_no_folder_is_not_announced_as_new(secondpass, write, tmp_path):
    file = write("in.jsonl", [{"id": "d1", "text": "A pear is a fruit."}])
    store = tmp_path / "gone" / "passages.store"
    told = secondpass(
        "rerank", file, "-q", "fruit", "-p", "embedded", "--set", f"method.store={store}"
    )
    assert f"{store}: its folder does not exist, so no passage is stored" in told.flat
    assert "new, empty store" not in told.flat


@pytest.mark.parametrize("again", [False, True])
def test_a_store_that_is_new_is_named_once(secondpass, write, tmp_path, again):
    """Its path may be misspelt."""
    store = tmp_path / "a store"
    file = write("in.jsonl", [{"id": "d1", "text": "A pear is a fruit."}] * 3)
    setting = f"method.store={store}"
    call = ["rerank", file, "-q", "fruit", "-p", "embedded", "--set", setting, "--batch", 1]
    if again:
        assert secondpass(*call).code == 0
    told = secondpass(*call)
    line = f"{store} is a new, empty store; `secondpass store DOCS --into '{store}'` fills it"
    assert (told.code, told.flat.count(line)) == (0, 0 if again else 1)
    embedded = {"type": "embedded", "store": str(tmp_path / "x")}
    pattern = {"type": "cascade", "stages": ["lexical", embedded]}
    config = write("c.yaml", json.dumps({"method": pattern, "fallback": ["lexical"]}))
    for command in (["rerank", *call[1:4], "-c", config], ["pack", *call[1:4], "-c", config]):
        assert secondpass(*command).flat.count("is a new, empty store") == 1
        (tmp_path / "x").unlink()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["dept=5"], "secondpass: --set dept: unknown key; did you mean 'depth'?"),
        (["limits={deadlin: 3}"], "secondpass: --set limits.deadlin: unknown key"),
        (["method.k1=many"], "secondpass: --set method.k1: must be a number, not 'many'"),
        (["depth=5"], "secondpass: {file}: dept: unknown key"),
        (["top_k=x"], "secondpass: {file}: 2 problems"),
        (["top_k=x"], " --set top_k: must be a whole number, not 'x'"),
    ],
)
def test_what_is_wrong_in_set_is_named_so(secondpass, write, settings, message):
    file = write("c.yaml", "method: lexical\ndept: 3\n")
    options = [f"--set={setting}" for setting in settings]
    of_preset = "{file}" not in message and "top_k" not in message
    chosen = ["-p", "lexical"] if of_preset else ["-c", file]
    commands = [["rerank", write("in.jsonl", requests(1)), *chosen]]
    commands += [["plan", *chosen], ["pack", commands[0][1], *chosen]]
    commands.append(["query", "x", "--corpus", file, "--lexical", "--rerank", *chosen])
    if of_preset:
        message = message.removeprefix("secondpass: ")
        commands += [["config", "show", *chosen], ["serve", *chosen]]
    for command in commands:
        told = secondpass(*command, *options)
        assert told.code == 1
        assert message.format(file=file) in told.flat
