"""Configurations on their way to workers."""

import pytest

from secondpass.errors import ConfigurationError
from secondpass_ray.configurations import check_keys, with_share, within_budget
from secondpass_ray.coordination import Budget


def test_keys_are_named_by_their_variables():
    llm = {"type": "openai", "model": "m", "api_key": {"env": "A_KEY"}}
    check_keys({"method": {"type": "graded", "llm": llm}})
    with pytest.raises(ConfigurationError, match="api_key") as caught:
        check_keys({"method": {"type": "graded", "llm": {**llm, "api_key": "sk-SECRET-123"}}})
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("concurrency", "workers", "share"), [(None, 2, None), (8, 2, 4), (9, 2, 4), (1, 4, 1)]
)
def test_shares(concurrency, workers, share):
    config = {"method": "lexical", "limits": {"deadline": 1}}
    expected = {"deadline": 1} if share is None else {"deadline": 1, "concurrency": share}
    assert with_share(config, concurrency, workers)["limits"] == expected
    assert config["limits"] == {"deadline": 1}


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
    assert within_budget(config, budget)["limits"] == expected
