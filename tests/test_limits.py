"""Limits and prices: what they accept."""

import pytest

from secondpass import ConfigurationError
from secondpass.limits import Limits, Prices

WRONG = [
    {"deadline": 0},
    {"deadline": -1},
    {"deadline": float("nan")},
    {"deadline": "20"},
    {"calls": 0},
    {"calls": 1.5},
    {"calls": True},
    {"tokens": 0},
    {"tokens": -5},
    {"cost": 0},
    {"cost": float("nan")},
    {"concurrency": 0},
    {"retries": -1},
    {"repair": 2},
    {"repair": -1},
    {"timeout": 3},
]


@pytest.mark.parametrize("settings", WRONG, ids=str)
def test_invalid_limits(settings):
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        Limits(**settings)


@pytest.mark.parametrize("settings", [{"input": -1, "output": 1}, {"input": 1}, {"output": "1"}])
def test_invalid_prices(settings):
    with pytest.raises(ConfigurationError):
        Prices(**settings)


def test_prices_are_per_million_tokens():
    assert Prices(3, 15).of(1_000_000, 0) == 3
    assert Prices(3, 15).of(0, 2_000_000) == 30
    assert Prices(0, 0).of(10, 10) == 0
