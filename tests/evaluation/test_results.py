import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.evaluation import Cost, Result


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


@pytest.mark.parametrize(
    ("statuses", "rate"),
    [({}, None), ({"ok": 3}, 0.0), ({"ok": 9, "partial": 1}, 0.1), ({"unchanged": 2}, 1.0)],
)
def test_failure_rates(statuses, rate) -> None:
    assert Result("x", "ran", statuses=statuses).failure_rate == rate
