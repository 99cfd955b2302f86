import pytest

from secondpass.scorers.engines.pace import Pace


def test_nothing_is_known():
    pace = Pace(8)
    assert pace.fitting([100] * 5, 1.0) == 1
    assert pace.fitting([], 1.0) == 0
    assert pace.fitting([100], 0.0) == pace.fitting([100], -1.0) == 0


@pytest.mark.parametrize(("seconds", "count"), [(0.1, 0), (0.112, 1), (1.0, 9), (100.0, 50)])
def test_a_steady_rate(seconds, count):
    """0.1 seconds for each text, of which nine tenths of the time left are used."""
    pace = Pace(8)
    for _ in range(3):
        pace.learn([100] * 8, 0.8)
    assert pace.fitting([100] * 50, seconds) == count


def test_padding_takes_time():
    pace = Pace(2)
    pace.learn([160, 160], 4.0)  # 400 with padding: 0.01 seconds for each
    assert pace.fitting([60, 60, 360, 360], 11.1 + 0.1) == 4  # 200 and 800 in two batches
    assert pace.fitting([60, 360, 60, 360], 11.1 + 0.1) == 4  # sorted
    assert Pace(4).fitting([60], 1.0) == 1
    four = Pace(4)
    four.learn([160, 160], 4.0)
    assert four.fitting([60, 60, 360, 360], 11.1 + 0.1) == 2  # four with 400 each


def test_the_rate_follows_the_batches():
    pace = Pace(8)
    pace.learn([60], 100.0)
    assert pace.fitting([60] * 8, 10.0) == 0
    for _ in range(20):
        pace.learn([60], 1.0)
    assert pace.fitting([60] * 20, 10.0) == 8
