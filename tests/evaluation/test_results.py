import pytest

from secondpass_evaluation import Result


@pytest.mark.parametrize(
    ("statuses", "rate"),
    [({}, None), ({"ok": 3}, 0.0), ({"ok": 9, "partial": 1}, 0.1), ({"unchanged": 2}, 1.0)],
)
def test_failure_rates(statuses, rate) -> None:
    assert Result("x", "ran", statuses=statuses).failure_rate == rate
