"""The budget of a job holds, whoever is killed, and nobody waits for ever."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_requests import requests
from fake_provider import FakeProvider
from secondpass.config import load
from secondpass.errors import InputError
from secondpass_ray import budget as budgets
from secondpass_ray.budget import (
    MOST_ATTEMPTS,
    SPENT,
    Amounts,
    Budget,
    Keeper,
    Spending,
    within_budget,
)
from secondpass_ray.ranking import Choices, Row, RowRanker


@pytest.fixture(autouse=True)
def written_here(monkeypatch):
    """Without pyarrow, which writes to object stores, too."""

    def write_whole(folder, name, data):
        with open(f"{folder}/{name}", "wb") as file:
            file.write(data)

    monkeypatch.setattr(budgets, "write_whole", write_whole)


def kept(folder, budget, work, spent=None):
    async def run():
        keeper = Keeper(str(folder), budget, spent or Amounts())
        return await asyncio.wait_for(work(keeper), 60)

    return asyncio.run(run())


def spent_in(folder):
    return Amounts(**json.loads((folder / SPENT).read_text()))


@given(
    budget=st.integers(1, 200),
    batches=st.lists(
        st.tuples(st.integers(1, 30), st.lists(st.floats(0, 1), min_size=1, max_size=4)),
        min_size=1,
        max_size=6,
    ),
    killed=st.sets(st.integers(0, 5)),
)
def test_a_budget_holds(tmp_path_factory, budget, batches, killed):
    folder = tmp_path_factory.mktemp("job")
    really = []

    async def worker(keeper, batch, most, shares):
        for dies in [True, False] if batch in killed else [False]:
            fitting = await keeper.hold(str(batch), len(shares), Amounts(most))
            took = sum(most * share for share in shares[:fitting])
            really.append(took)
            await asyncio.sleep(0)
            if not dies:  # or another begins again, as it has not said what it took
                await keeper.settle(str(batch), Amounts(took))
        return fitting

    async def work(keeper):
        return await asyncio.gather(
            *(worker(keeper, number, *batch) for number, batch in enumerate(batches))
        )

    done = kept(folder, Budget(tokens=budget), work)
    assert sum(really) <= budget
    assert sum(really) <= spent_in(folder).tokens + 1e-6 <= budget + 2e-6
    if sum(most * len(shares) for most, shares in batches) * 2 <= budget:
        assert done == [len(shares) for _, shares in batches]


def test_rows_wait_for_what_others_hold_but_do_not_spend(tmp_path):
    async def work(keeper):
        assert await keeper.hold("a", 1, Amounts(80)) == 1
        waiting = asyncio.ensure_future(keeper.hold("b", 1, Amounts(60)))
        await asyncio.sleep(0)
        assert not waiting.done()
        await keeper.settle("a", Amounts(10))
        assert await waiting == 1

    kept(tmp_path, Budget(tokens=100), work)
    assert spent_in(tmp_path).tokens == 70


def test_rows_do_not_wait_for_ever_for_what_a_lost_worker_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(budgets, "_LONGEST_WAIT", 0.05)

    async def work(keeper):
        assert await keeper.hold("a", 1, Amounts(80)) == 1
        waiting = [keeper.hold(batch, 1, Amounts(60)) for batch in "bc"]
        assert await asyncio.gather(*waiting) == [0, 0]
        assert await keeper.hold("a", 1, Amounts(1)) == 0

    kept(tmp_path, Budget(tokens=100), work)
    assert spent_in(tmp_path).tokens == 80


def test_what_was_spent_before_counts(tmp_path):
    async def work(keeper):
        return await keeper.hold("a", 3, Amounts(0, 1.0)), await keeper.hold("b", 1, Amounts())

    assert kept(tmp_path, Budget(cost=3.0), work, Amounts(0, 1.0)) == (2, 0)


@pytest.mark.parametrize("budget", [Budget(), Budget(tokens=1000)], ids=["none", "large"])
def test_rows_that_kill_their_worker_are_not_retried_for_ever(tmp_path, budget):
    async def work(keeper):
        for _ in range(MOST_ATTEMPTS):
            assert await keeper.hold("in.jsonl:7", 2, Amounts(1)) == 2
        with pytest.raises(InputError, match=r"in.jsonl:7: .* was killed 10 times; .* --batch"):
            await keeper.hold("in.jsonl:7", 2, Amounts(1))

    kept(tmp_path, budget, work)
    assert (tmp_path / SPENT).exists() == bool(budget)


@pytest.mark.parametrize("swapped", [False, True])
def test_more_tokens_do_not_hide_a_higher_cost(swapped):
    a, b = Amounts(5, 1.0), Amounts(3, 2.0)
    assert (b.or_more(a) if swapped else a.or_more(b)) == Amounts(5, 2.0)


@pytest.mark.parametrize(
    ("limits", "budget", "expected"),
    [
        (None, Budget(), None),
        (None, Budget(tokens=5), {"tokens": 5}),
        ({"tokens": 3}, Budget(tokens=5, cost=1.0), {"tokens": 3, "cost": 1.0}),
    ],
    ids=["none", "tokens", "own limit"],
)
def test_rankings_within_a_budget_have_limits(limits, budget, expected):
    config = {"method": "lexical", "limits": limits}
    assert within_budget(config, budget).get("limits") == expected


@pytest.mark.parametrize("repair", [0, 1])
def test_what_is_reserved_for_a_row_is_enough(repair):
    with FakeProvider() as provider:
        llm = {"type": "openai", "model": "m", "api_key": "k", "prices": {"input": 3, "output": 7}}
        llm["base_url"] = provider.base_url("openai")
        limits = {"repair": repair, "tokens": 100_000, "cost": 10}
        reranker = load({"method": {"type": "graded", "llm": llm}, "limits": limits})
        spending, ranker = Spending(reranker, {}), RowRanker(reranker, Choices({}))
        for number, one in enumerate(requests(12)):
            row = Row("f", number + 1, json.dumps(one).encode())
            parsed = ranker.parse(row)
            need = spending.need([parsed])
            ranked = ranker.lines([row], [parsed], spending.limited(need))
            (usage,) = ranked.usages
            assert usage.calls >= 1, ranked.lines
            spent = spending.spent([usage], need)
            assert spent.tokens <= need.tokens
            assert spent.cost <= need.cost
