"""What is held for a row is enough for its ranking."""

import json

import pytest

from command_requests import requests
from fake_provider import FakeProvider
from secondpass.config import load
from secondpass_ray.blocks import Row
from secondpass_ray.ranking import Choices, RowRanker
from secondpass_ray.worker import Spending


@pytest.mark.parametrize("repair", [0, 1])
def test_every_row_is_asked_about(repair):
    with FakeProvider() as provider:
        llm = {"type": "openai", "model": "m", "api_key": "k", "prices": {"input": 3, "output": 7}}
        llm["base_url"] = provider.base_url("openai")
        limits = {"repair": repair, "tokens": 100_000, "cost": 10}
        reranker = load({"method": {"type": "graded", "llm": llm}, "limits": limits})
        spending, ranker = Spending(reranker, {}), RowRanker(reranker, Choices({}))
        for number, one in enumerate(requests(12)):
            row = Row(number, "f", number + 1, json.dumps(one).encode())
            parsed = ranker.parse(row)
            need = spending.need([parsed])
            ranked = ranker.lines([row], [parsed])
            (usage,) = ranked.usages
            assert usage.calls >= 1, ranked.lines
            spent = spending.spent([usage], need)
            assert spent.tokens <= need.tokens
            assert spent.cost <= need.cost
