"""``secondpass plan``: calls, rounds, tokens, cost and time; the model must not be asked."""

import json
import sys

import pytest


@pytest.fixture
def listwise(write, unasked):
    """A cascade whose second stage asks the provider, with prices and a limit of calls."""
    address = unasked.base_url("openai")
    return write(
        "listwise.yaml",
        "method:\n  type: cascade\n  stages:\n  - {type: lexical, depth: 100}\n"
        "  - {type: listwise, depth: 60, llm: {type: openai, model: m, "
        f"prices: {{input: 1000000, output: 0}}, base_url: '{address}'}}}}\n"
        "limits: {calls: 4}\nfallback: [lexical]\n",
    )


def test_a_configuration_is_planned(secondpass, listwise):
    call = ["plan", "-c", listwise, "-n", 80, "--tokens-per-passage", 50]
    told = secondpass(*call, "--seconds-per-call", 2)
    found = json.loads(told.out)
    assert told.code == 0
    assert [stage["method"] for stage in found["stages"]] == ["lexical", "listwise by m"]
    assert [stage["candidates"] for stage in found["stages"]] == [80, 60]
    whole = found["total"]
    assert (whole["calls"], whole["rounds"], whole["seconds"]) == (5, 5, 10)
    assert whole["cost"] == pytest.approx(whole["input_tokens"], abs=1)
    assert whole["input_tokens"] > 5 * 20 * 50
    assert found["exceeded"] == [{"limit": "calls", "allowed": 4, "needed": 5}]
    assert found["stages"][1]["left_out"] == 10
    longer = json.loads(secondpass(*call[:-1], 100).out)["total"]
    assert longer["input_tokens"] - whole["input_tokens"] == 5 * 20 * 50
    assert longer["seconds"] is None


def test_strategies_are_compared(secondpass, listwise):
    told = secondpass("plan", "-c", listwise, "--compare")
    found = json.loads(told.out)
    calls = {name: plan["total"]["calls"] for name, plan in found["strategies"].items()}
    assert {"graded": 5, "listwise": 9, "blocks": 11}.items() <= calls.items()
    assert "cascade" not in calls


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-p", "lexical", "--compare"], 1, "--compare: the configuration has no language model"),
        (["-p", "nosuch"], 1, "nosuch"),
        (["-p", "lexical", "-n", "-1"], 2, "--candidates"),
        (["-p", "lexical", "--tokens-per-passage", "0"], 2, "--tokens-per-passage"),
        (["-p", "lexical", "--seconds-per-call", "0"], 2, "--seconds-per-call"),
    ],
)
def test_what_cannot_be_planned_is_an_error(secondpass, arguments, code, message):
    told = secondpass("plan", *arguments)
    assert (told.code, message in told.flat, told.out) == (code, True, "")


@pytest.mark.parametrize(
    ("settings", "options", "asked"),
    [
        (["method={type: graded, llm: {type: openai, model: m}}"], [], ["graded by m"]),
        (["method={type: graded, llm: {type: openai, model: m}}"], ["--compare"], None),
        (["method={type: listwise, llm: {type: anthropic, model: m}}"], [], ["listwise by m"]),
        (["method={type: graded, llm: {type: google, model: m}}"], [], ["graded by m"]),
        (["method={type: cross_encoder, model: org/m}", "fallback=[lexical]"], [], ["org/m"]),
        (["method={type: late_interaction, model: org/m}"], [], ["org/m"]),
        (["method=embedded"], [], ["all-MiniLM-L6-v2-int8"]),
        (["method={type: endpoint, api: bedrock, model: m, base_url: http://h}"], [], ["m"]),
    ],
)
def test_no_package_of_a_model_is_needed(secondpass, monkeypatch, settings, options, asked):
    clients = "openai anthropic google.genai httpx botocore"
    local = "torch sentence_transformers tokenizers onnxruntime openvino"
    for package in f"{clients} {local}".split():
        monkeypatch.setitem(sys.modules, package, None)
    chosen = [part for setting in settings for part in ("-s", setting)]
    told = secondpass("plan", *chosen, *options)
    assert (told.code, told.err) == (0, "")
    found = json.loads(told.out)
    if asked is None:
        assert {"graded", "listwise", "pointwise"} <= found["strategies"].keys()
        assert not found["not_run"]
    else:
        assert [stage["method"] for stage in found["stages"]] == asked
