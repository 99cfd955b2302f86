"""Tables of plans, and which strategies are compared."""

import json

import pytest
import typer

from secondpass import Reranker
from secondpass.cli.commands.plan import print_plan, print_strategies, strategies_of
from secondpass.ranking.cost_plan import CostPlan, ExceededLimit, PlannedStage

LLM = {"type": "openai", "model": "m", "api_key": "k"}
OTHER = {**LLM, "model": "other"}
LOCAL = PlannedStage("lexical", 2000, pairs=2000)
ASKING = PlannedStage(
    "graded\x1b[1m by m",
    1000,
    calls=50,
    rounds=1,
    pairs=1000,
    input_tokens=80_000.4,
    output_tokens=100.0,
    cost=0.123456,
    seconds=2.5,
)
PLAN = CostPlan(2000, (LOCAL, ASKING), tokens_per_passage=1234, seconds_per_call=2.5)


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
    assert assumptions.startswith("5 candidates of about 0 tokens. Nothing was called.")
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


@pytest.mark.parametrize("as_json", [False, True], ids=["pipe", "--json"])
def test_a_pipe_gets_json(capsys, monkeypatch, as_json):
    monkeypatch.setattr("secondpass.cli.commands.plan.on_terminal", lambda _stream: as_json)
    print_plan(PLAN, as_json=as_json)
    assert json.loads(capsys.readouterr().out) == PLAN.to_dict()
    print_strategies({"graded": PLAN}, {"blocks": "reason"}, as_json=as_json)
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"strategies": {"graded": PLAN.to_dict()}, "not_run": {"blocks": "reason"}}


def test_strategies_that_need_only_a_language_model_are_compared():
    cascade = {"type": "cascade", "stages": ["lexical", {"type": "listwise", "llm": LLM}]}
    graded = {"type": "graded", "llm": OTHER}
    settings = {"depth": 40, "limits": {"calls": 9}, "passages": {"size": 50}}
    reranker = Reranker(cascade, fallback=[graded], **settings)
    rerankers, not_run = strategies_of(reranker)
    assert not_run == {}
    assert {"graded", "listwise", "blocks"} <= rerankers.keys()
    assert not rerankers.keys() & {"cascade", "lexical", "endpoint", "cross_encoder"}
    for strategy in rerankers.values():
        assert strategy.depth == 40
        assert (strategy.limits, strategy.passages) == (reranker.limits, reranker.passages)
        assert {llm.model for llm in strategy.method.language_models} == {"m"}


@pytest.mark.parametrize(
    "method",
    ["lexical", {"type": "endpoint", "api": "tei", "base_url": "http://127.0.0.1:9"}],
    ids=["local", "rerank API"],
)
def test_without_a_language_model_nothing_is_compared(capsys, method):
    with pytest.raises(typer.Exit) as stop:
        strategies_of(Reranker(method))
    assert stop.value.exit_code == 1
    assert "--compare: the configuration has no language model" in capsys.readouterr().err
