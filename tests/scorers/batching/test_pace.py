import pytest

from secondpass.scorers.batching.pace import TokenPace


def test_a_moving_average_of_padded_tokens():
    pace = TokenPace()
    assert pace.seconds_per_token is None
    pace.learn([10, 0, 20], 4.0)  # two pairs of 20 tokens; what is known takes no time
    assert pace.seconds_per_token == pytest.approx(0.1)
    pace.learn([5], 1.0)
    assert pace.seconds_per_token == pytest.approx(0.1 + 0.3 * (0.2 - 0.1))


@pytest.mark.parametrize(("lengths", "seconds"), [([], 1.0), ([0], 1.0), ([5], 0.0)])
def test_what_took_no_time_changes_nothing(lengths, seconds):
    pace = TokenPace()
    pace.learn(lengths, seconds)
    assert pace.seconds_per_token is None
