"""What a ranking would take: sums over stages, words, plain values."""

import json

from fakes import Model
from secondpass import Reranker
from secondpass.limits import Prices
from secondpass.strategies.cost_plan import CostPlan, PlannedStage, in_words
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise

PRICES = Prices(1, 10)


def test_a_plan_is_plain_values_and_reads_well():
    reranker = Reranker(Listwise(Model(prices=PRICES)), limits={"calls": 5})
    planned = reranker.plan(100, tokens_per_passage=50, seconds_per_call=2)
    record = json.loads(json.dumps(planned.to_dict()))
    assert (record["candidates"], record["tokens_per_passage"]) == (100, 50)
    assert record["total"]["calls"] == record["stages"][0]["calls"] == [9, 9]
    assert record["exceeded"] == [{"limit": "calls", "allowed": 5, "needed": [9, 9]}]
    assert record["notes"] == planned.notes
    said = repr(planned)
    assert said.startswith("<CostPlan listwise by model, 100 candidates: 9 calls in 9 rounds, ")
    assert "18 s; limits.calls is 5, and the ranking needs 9; " in said
    assert repr(Reranker(Graded(Model())).plan(5)).count("1 call in 1 round") == 1
    assert repr(CostPlan(0, ())) == "<CostPlan 0 candidates: 0 calls in 0 rounds>"


def test_ranges_in_words():
    assert in_words((9, 9)) == "9"
    assert in_words((1200.2, 4000)) == "1,201 to 4,000"
    assert in_words((0.012345, 0.5), 3) == "0.0123 to 0.5"
    assert in_words(None) == "?"
    assert PlannedStage("m", 1).asks is False
