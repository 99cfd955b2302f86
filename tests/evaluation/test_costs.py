"""Percentiles of times, and what a query costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass_evaluation import Cost
from secondpass_evaluation.costs import percentiles


@given(st.lists(st.floats(0, 100), max_size=30), st.floats(0, 1))
def test_percentile_is_a_measured_time(times, share) -> None:
    cost = Cost({str(at): seconds for at, seconds in enumerate(times)})
    found = cost.percentile(share)
    if not times:
        assert found is None
        return
    assert found in times
    assert sum(time <= found for time in times) >= share * len(times) - 1e-9
    assert cost.percentile(0.0) == min(times)
    assert cost.percentile(1.0) == max(times)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1.0), (0.5, 5.0), (0.51, 6.0), (0.95, 10.0), (1.0, 10.0)]
)
def test_percentiles_by_hand(share, expected) -> None:
    assert Cost({str(at): float(at) for at in range(10, 0, -1)}).percentile(share) == expected


def test_reported_percentiles():
    assert percentiles([3.0, 1.0, 2.0]) == {"p50": 2.0, "p95": 3.0, "p99": 3.0, "max": 3.0}
    assert {*percentiles([]).values()} == {None}


@pytest.mark.parametrize(
    ("cost", "units"),
    [
        (Cost({"q": 1.0, "r": 1.0}, units=3.0), 1.5),
        (Cost({"q": 1.0}, units=0.0), 0.0),
        (Cost({"q": 1.0}), None),
        (Cost(units=3.0), None),
    ],
    ids=["some", "zero", "not known", "no query"],
)
def test_units_per_query(cost, units):
    assert cost.units_per_query == units
