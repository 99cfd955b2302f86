"""What a ranking would take: sums over stages, words, plain values."""

import json

from fakes import Model
from secondpass import Reranker
from secondpass.limits import Prices
from secondpass.ranking.cost_plan import CostPlan, ExceededLimit, PlannedStage, in_words
from secondpass.strategies.graded import Graded
from secondpass.strategies.listwise import Listwise

PRICES = Prices(1, 10)


def test_a_plan_is_plain_values_and_reads_well():
    reranker = Reranker(Listwise(Model(prices=PRICES)), limits={"calls": 5})
    planned = reranker.plan(100, tokens_per_passage=50)
    record = json.loads(json.dumps(planned.to_dict()))
    assert (record["candidates"], record["tokens_per_passage"]) == (100, 50)
    assert record["total"]["calls"] == record["stages"][0]["calls"] == 9
    assert record["exceeded"] == [{"limit": "calls", "allowed": 5, "needed": 9}]
    assert record["notes"] == planned.notes
    said = repr(planned)
    assert said.startswith("<CostPlan listwise by model, 100 candidates: 9 calls in 9 rounds, ")
    assert "; limits.calls is 5, and the ranking needs 9; " in said
    assert repr(Reranker(Graded(Model())).plan(5)).count("1 call in 1 round") == 1
    assert repr(CostPlan(0, ())) == "<CostPlan 0 candidates: 0 calls in 0 rounds>"


def test_numbers_in_words():
    assert in_words(9) == "9"
    assert in_words(1200.2) == "1,201"
    assert in_words(0.012345, 3) == "0.0123"
    assert in_words(None) == "?"
    assert PlannedStage("m", 1).asks is False


STAGES = (
    PlannedStage("lexical", 100, pairs=100),
    PlannedStage("listwise", 50, 6, 3, 50, 150.5, 20, 1, left_out=7),
    PlannedStage("graded", 10, 1, 1, 10, 30, 5, 0.25),
)


def test_total():
    whole = CostPlan(100, STAGES).total
    assert (whole.calls, whole.rounds, whole.pairs) == (7, 4, 160)
    assert (whole.input_tokens, whole.output_tokens) == (180.5, 25)
    assert whole.cost == 1.25


def test_what_is_not_known_of_one_stage_is_not_known_of_all():
    unpriced = PlannedStage("own", 5, 1, 1, 5, 1, 1)
    whole = CostPlan(100, (*STAGES, unpriced)).total
    assert (whole.calls, whole.input_tokens, whole.cost) == (8, 181.5, None)
    whole = CostPlan(100, (*STAGES, PlannedStage("own", 5, None, None, 5))).total
    assert {whole.calls, whole.rounds, whole.input_tokens, whole.cost} == {None}
    assert whole.asks
    assert CostPlan(100, STAGES[:1]).total.cost is None


def test_notes():
    exceeded = (ExceededLimit("calls", 3, 6), ExceededLimit("cost", 0.75, 1))
    notes = CostPlan(100, STAGES, exceeded).notes
    assert notes == [
        "limits.calls is 3, and the ranking needs 6",
        "limits.cost is 0.75, and the ranking needs 1",
        "listwise would leave out 7 of its 50 candidates",
    ]
    problem = PlannedStage("m", 5, problem="no room", shortened=True, left_out=5)
    cut = "m: passages would be cut to fit the context window"
    assert CostPlan(5, (problem,)).notes == ["m: no room", cut]


def test_the_numbers_of_a_record_are_whole():
    record = CostPlan(100, STAGES).to_dict()
    assert record["total"]["input_tokens"] == 181
    assert record["stages"][1]["cost"] == 1
    assert record["stages"][0]["cost"] is None
    json.dumps(record)
